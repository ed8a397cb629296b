// CASE broadcasts of broadcasts
// 1 times stablehlo.
// has broadcast_in_dim %arg0, dims = [1, 3]
func.func @main(%x: tensor<2x3xf32>) -> tensor<4x2x5x3xf32> {
  %0 = stablehlo.broadcast_in_dim %x, dims = [0, 2] : (tensor<2x3xf32>) -> tensor<2x1x3xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [1, 2, 3]
    : (tensor<2x1x3xf32>) -> tensor<4x2x5x3xf32>
  return %1 : tensor<4x2x5x3xf32>
}

// CASE a broadcast of a broadcast in another order
// 1 times stablehlo.
// has broadcast_in_dim %arg0, dims = [1, 0]
func.func @main(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
  %0 = stablehlo.broadcast_in_dim %x, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<3x2xf32>) -> tensor<3x2xf32>
  return %1 : tensor<3x2xf32>
}

// CASE reshapes
// 1 times stablehlo.
// has reshape %arg0 : (tensor<2x3xf32>) -> tensor<3x2xf32>
func.func @main(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
  %0 = stablehlo.reshape %x : (tensor<2x3xf32>) -> tensor<6xf32>
  %1 = stablehlo.reshape %0 : (tensor<6xf32>) -> tensor<3x2xf32>
  return %1 : tensor<3x2xf32>
}

// CASE a reshape that undoes ones
// lacks stablehlo.
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = stablehlo.broadcast_in_dim %x, dims = [1, 2] : (tensor<2x3xf32>) -> tensor<1x2x3xf32>
  %1 = stablehlo.reshape %0 : (tensor<1x2x3xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// CASE a reshape of what repeats, and of what is transposed by a broadcast
// where $D is 1, 2; $B is 2x2x3; $R is 4x3
// where $D is 2, 1; $B is 1x3x2; $R is 3x2
// stays
func.func @main(%x: tensor<2x3xf32>) -> tensor<$Rxf32> {
  %0 = stablehlo.broadcast_in_dim %x, dims = [$D] : (tensor<2x3xf32>) -> tensor<$Bxf32>
  %1 = stablehlo.reshape %0 : (tensor<$Bxf32>) -> tensor<$Rxf32>
  return %1 : tensor<$Rxf32>
}

// CASE transposes
// lacks stablehlo.
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<3x2xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// CASE transposes of three dimensions
// 2 times stablehlo.
// has transpose %0, dims = [2, 0, 1]
func.func @main(%x: tensor<2x3xf32>) -> tensor<3x1x2xf32> {
  %0 = stablehlo.reshape %x : (tensor<2x3xf32>) -> tensor<1x2x3xf32>
  %1 = stablehlo.transpose %0, dims = [1, 2, 0] : (tensor<1x2x3xf32>) -> tensor<2x3x1xf32>
  %2 = stablehlo.transpose %1, dims = [1, 2, 0] : (tensor<2x3x1xf32>) -> tensor<3x1x2xf32>
  return %2 : tensor<3x1x2xf32>
}

// CASE filled constants, and products by one
// lacks stablehlo.
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = stablehlo.constant dense<1.0> : tensor<f32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<3x2xf32>
  %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<3x2xf32>) -> tensor<2x3xf32>
  %3 = stablehlo.multiply %2, %x : tensor<2x3xf32>
  return %3 : tensor<2x3xf32>
}

// CASE sums with zero, which change the sign of zero
// 2 times stablehlo.
// has constant dense<0.000000e+00> : tensor<2x3xf32>
// has add %arg0, %cst
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
  %2 = stablehlo.add %x, %1 : tensor<2x3xf32>
  return %2 : tensor<2x3xf32>
}

// CASE casts to the same type
// lacks stablehlo.
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = stablehlo.convert %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// CASE dynamic sizes
// stays
func.func @main(%x: tensor<?x3xf32>) -> tensor<3x?xf32> {
  %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<?x3xf32>) -> tensor<3x?xf32>
  return %0 : tensor<3x?xf32>
}
