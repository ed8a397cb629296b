module @IrToHlo {
  func.func @main(%arg0: tensor<4x6xf32>) -> tensor<4x6xf32> {
    %0 = stablehlo.composite "odml.l2_norm" %arg0 {composite_attributes = {axis = -1 : i64, epsilon = 9.99999996E-13 : f32}, decomposition = @odml.l2_norm.impl} : (tensor<4x6xf32>) -> tensor<4x6xf32>
    return %0 : tensor<4x6xf32>
  }
  func.func private @odml.l2_norm.impl(%arg0: tensor<4x6xf32>) -> tensor<4x6xf32> {
    %cst = stablehlo.constant dense<9.99999996E-13> : tensor<4x1xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %cst_1 = stablehlo.constant dense<2.000000e+00> : tensor<4x6xf32>
    %0 = stablehlo.power %arg0, %cst_1 : tensor<4x6xf32>
    %1 = stablehlo.reduce(%0 init: %cst_0) applies stablehlo.add across dimensions = [1] : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>
    %2 = stablehlo.reshape %1 : (tensor<4xf32>) -> tensor<4x1xf32>
    %3 = stablehlo.add %2, %cst : tensor<4x1xf32>
    %4 = stablehlo.rsqrt %3 : tensor<4x1xf32>
    %5 = stablehlo.reshape %4 : (tensor<4x1xf32>) -> tensor<4xf32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<4xf32>) -> tensor<4x6xf32>
    %7 = stablehlo.multiply %arg0, %6 : tensor<4x6xf32>
    return %7 : tensor<4x6xf32>
  }
}
