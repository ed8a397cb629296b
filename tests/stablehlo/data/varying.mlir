// One decomposition that two composites share, with another one in it, and an integer operand that
// is a constant.
func.func @main(%x: tensor<?x?x4xf32>) -> tensor<?x?x4xf32> {
  %five = stablehlo.constant dense<5> : tensor<i64>
  %0 = stablehlo.composite "acme.scale" %five, %x {decomposition = @scale, version = 2 : i32,
    composite_attributes = {axis = 1 : i64}}
    : (tensor<i64>, tensor<?x?x4xf32>) -> tensor<?x?x4xf32>
  %r = stablehlo.composite "acme.scale" %five, %0 {decomposition = @scale, version = 2 : i32,
    composite_attributes = {axis = 1 : i64}}
    : (tensor<i64>, tensor<?x?x4xf32>) -> tensor<?x?x4xf32>
  return %r : tensor<?x?x4xf32>
}
func.func private @scale(%n: tensor<i64>, %x: tensor<?x?x4xf32>) -> tensor<?x?x4xf32> {
  %four = stablehlo.constant dense<4> : tensor<1xi32>
  %0 = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x?x4xf32>) -> tensor<i32>
  %1 = stablehlo.get_dimension_size %x, dim = 1 : (tensor<?x?x4xf32>) -> tensor<i32>
  %2 = stablehlo.reshape %0 : (tensor<i32>) -> tensor<1xi32>
  %3 = stablehlo.reshape %1 : (tensor<i32>) -> tensor<1xi32>
  %4 = stablehlo.concatenate %2, %3, %four, dim = 0
    : (tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<3xi32>
  %5 = stablehlo.convert %n : (tensor<i64>) -> tensor<f32>
  %6 = stablehlo.dynamic_broadcast_in_dim %5, %4, dims = []
    : (tensor<f32>, tensor<3xi32>) -> tensor<?x?x4xf32>
  %7 = stablehlo.divide %x, %6 : tensor<?x?x4xf32>
  %8 = stablehlo.multiply %0, %1 : tensor<i32>
  %9 = stablehlo.reshape %8 : (tensor<i32>) -> tensor<1xi32>
  %10 = stablehlo.concatenate %9, %four, dim = 0
    : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %11 = stablehlo.dynamic_reshape %7, %10 : (tensor<?x?x4xf32>, tensor<2xi32>) -> tensor<?x4xf32>
  %12 = stablehlo.composite "acme.twice" %11 {decomposition = @twice}
    : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %13 = stablehlo.dynamic_reshape %12, %4 : (tensor<?x4xf32>, tensor<3xi32>) -> tensor<?x?x4xf32>
  return %13 : tensor<?x?x4xf32>
}
func.func private @twice(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %0 = stablehlo.add %x, %x : tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}
