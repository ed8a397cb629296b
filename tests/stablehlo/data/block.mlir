// A clean module: two composites, one used twice, and an outer one with a composite inside.
module @block {
  func.func @main(%arg0: tensor<4x8xf32>, %arg1: tensor<8x8xf32>) -> tensor<4x8xf32> {
    %0 = stablehlo.composite "acme.twice" %arg0 {composite_attributes = {axis = 1 : i64, scale = 2.000000e+00 : f32}, decomposition = @acme.twice.impl} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %1 = stablehlo.dot_general %0, %arg1, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %2 = stablehlo.composite "acme.twice" %1 {composite_attributes = {axis = 1 : i64, scale = 2.000000e+00 : f32}, decomposition = @acme.twice.impl} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %3 = stablehlo.composite "ptxla.outer" %2, %1 {decomposition = @ptxla.outer.impl, version = 1 : i32} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    return %3 : tensor<4x8xf32>
  }
  func.func private @acme.twice.impl(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<4x8xf32>
    %0 = stablehlo.multiply %arg0, %cst : tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }
  func.func private @ptxla.outer.impl(%arg0: tensor<4x8xf32>, %arg1: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %0 = stablehlo.composite "acme.tanh" %arg1 {decomposition = @acme.tanh.impl} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %1 = stablehlo.subtract %arg0, %0 : tensor<4x8xf32>
    return %1 : tensor<4x8xf32>
  }
  func.func private @acme.tanh.impl(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %0 = stablehlo.tanh %arg0 : tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }
}
