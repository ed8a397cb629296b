// CASE batch and heads of attention are apart
// lacks stablehlo.reshape
// 2 times batching_dims = [0, 1] x [0, 1]
// 1 times precision = [HIGHEST, HIGHEST]
// within 1e-6
func.func @main(%q: tensor<2x4x16x8xf32>, %k: tensor<2x4x12x8xf32>, %v: tensor<2x4x12x6xf32>)
    -> tensor<2x4x16x6xf32> {
  %0 = stablehlo.reshape %q : (tensor<2x4x16x8xf32>) -> tensor<8x16x8xf32>
  %1 = stablehlo.reshape %k : (tensor<2x4x12x8xf32>) -> tensor<8x12x8xf32>
  %2 = stablehlo.transpose %1, dims = [0, 2, 1] : (tensor<8x12x8xf32>) -> tensor<8x8x12xf32>
  %3 = stablehlo.dot_general %0, %2, batching_dims = [0] x [0], contracting_dims = [2] x [1],
    precision = [HIGHEST, HIGHEST]
    : (tensor<8x16x8xf32>, tensor<8x8x12xf32>) -> tensor<8x16x12xf32>
  %4 = stablehlo.reshape %3 : (tensor<8x16x12xf32>) -> tensor<2x4x16x12xf32>
  %5 = stablehlo.tanh %4 : tensor<2x4x16x12xf32>
  %6 = stablehlo.reshape %5 : (tensor<2x4x16x12xf32>) -> tensor<8x16x12xf32>
  %7 = stablehlo.reshape %v : (tensor<2x4x12x6xf32>) -> tensor<8x12x6xf32>
  %8 = stablehlo.dot_general %6, %7, batching_dims = [0] x [0], contracting_dims = [2] x [1]
    : (tensor<8x16x12xf32>, tensor<8x12x6xf32>) -> tensor<8x16x6xf32>
  %9 = stablehlo.reshape %8 : (tensor<8x16x6xf32>) -> tensor<2x4x16x6xf32>
  return %9 : tensor<2x4x16x6xf32>
}

// CASE three dimensions, and a result that is read merged
// has batching_dims = [0, 1, 2] x [0, 1, 2]
// 1 times stablehlo.reshape
// within 1e-5
func.func @main(%x: tensor<2x3x4x5x6xf32>) -> tensor<24x5x5xf32> {
  %a = stablehlo.reshape %x : (tensor<2x3x4x5x6xf32>) -> tensor<24x5x6xf32>
  %t = stablehlo.transpose %a, dims = [0, 2, 1] : (tensor<24x5x6xf32>) -> tensor<24x6x5xf32>
  %p = stablehlo.dot_general %a, %t, batching_dims = [0] x [0], contracting_dims = [2] x [1]
    : (tensor<24x5x6xf32>, tensor<24x6x5xf32>) -> tensor<24x5x5xf32>
  return %p : tensor<24x5x5xf32>
}

// CASE a cast is followed
// lacks stablehlo.reshape
// 2 times 2x4x12x8xbf16
// within 1e-6
func.func @main(%q: tensor<2x4x16x8xf32>, %k: tensor<2x4x12x8xf32>) -> tensor<2x4x16x12xf32> {
  %0 = stablehlo.reshape %q : (tensor<2x4x16x8xf32>) -> tensor<8x16x8xf32>
  %1 = stablehlo.reshape %k : (tensor<2x4x12x8xf32>) -> tensor<8x12x8xf32>
  %2 = stablehlo.convert %1 : (tensor<8x12x8xf32>) -> tensor<8x12x8xbf16>
  %3 = stablehlo.convert %2 : (tensor<8x12x8xbf16>) -> tensor<8x12x8xf32>
  %4 = stablehlo.transpose %3, dims = [0, 2, 1] : (tensor<8x12x8xf32>) -> tensor<8x8x12xf32>
  %5 = stablehlo.dot_general %0, %4, batching_dims = [0] x [0], contracting_dims = [2] x [1]
    : (tensor<8x16x8xf32>, tensor<8x8x12xf32>) -> tensor<8x16x12xf32>
  %6 = stablehlo.reshape %5 : (tensor<8x16x12xf32>) -> tensor<2x4x16x12xf32>
  return %6 : tensor<2x4x16x12xf32>
}

// CASE a dimension of 1, a split, and another order
// for $X in 1x8x5x6 8x30 2x4x6x5
// stays
func.func @main(%x: tensor<$Xxf32>) -> tensor<8x5x5xf32> {
  %a = stablehlo.reshape %x : (tensor<$Xxf32>) -> tensor<8x5x6xf32>
  %t = stablehlo.transpose %a, dims = [0, 2, 1] : (tensor<8x5x6xf32>) -> tensor<8x6x5xf32>
  %p = stablehlo.dot_general %a, %t, batching_dims = [0] x [0], contracting_dims = [2] x [1]
    : (tensor<8x5x6xf32>, tensor<8x6x5xf32>) -> tensor<8x5x5xf32>
  return %p : tensor<8x5x5xf32>
}

// CASE operands that are merged in two ways
// stays
func.func @main(%x: tensor<2x4x5x6xf32>, %y: tensor<4x2x6x7xf32>) -> tensor<8x5x7xf32> {
  %a = stablehlo.reshape %x : (tensor<2x4x5x6xf32>) -> tensor<8x5x6xf32>
  %b = stablehlo.reshape %y : (tensor<4x2x6x7xf32>) -> tensor<8x6x7xf32>
  %p = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1]
    : (tensor<8x5x6xf32>, tensor<8x6x7xf32>) -> tensor<8x5x7xf32>
  return %p : tensor<8x5x7xf32>
}
