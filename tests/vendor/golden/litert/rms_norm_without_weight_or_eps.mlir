module @IrToHlo {
  func.func @main(%arg0: tensor<4x6xf32>) -> tensor<4x6xf32> {
    %0 = stablehlo.composite "odml.rms_norm" %arg0 {composite_attributes = {epsilon = 1.1920929E-7 : f32}, decomposition = @odml.rms_norm.impl} : (tensor<4x6xf32>) -> tensor<4x6xf32>
    return %0 : tensor<4x6xf32>
  }
  func.func private @odml.rms_norm.impl(%arg0: tensor<4x6xf32>) -> tensor<4x6xf32> {
    %cst = stablehlo.constant dense<1.1920929E-7> : tensor<4x1xf32>
    %cst_0 = stablehlo.constant dense<6.000000e+00> : tensor<4x1xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %cst_2 = stablehlo.constant dense<2.000000e+00> : tensor<4x6xf32>
    %0 = stablehlo.power %arg0, %cst_2 : tensor<4x6xf32>
    %1 = stablehlo.reduce(%0 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>
    %2 = stablehlo.reshape %1 : (tensor<4xf32>) -> tensor<4x1xf32>
    %3 = stablehlo.divide %2, %cst_0 : tensor<4x1xf32>
    %4 = stablehlo.add %3, %cst : tensor<4x1xf32>
    %5 = stablehlo.rsqrt %4 : tensor<4x1xf32>
    %6 = stablehlo.reshape %5 : (tensor<4x1xf32>) -> tensor<4xf32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [0] : (tensor<4xf32>) -> tensor<4x6xf32>
    %8 = stablehlo.multiply %arg0, %7 : tensor<4x6xf32>
    return %8 : tensor<4x6xf32>
  }
}
