module @IrToHlo {
  func.func @main(%arg0: tensor<2x3x6xf32>) -> tensor<2x3x6xf32> {
    %0 = stablehlo.composite "tenstorrent.layer_norm" %arg0 {composite_attributes = {epsilon = 1.000000e-03 : f32, normalized_shape = dense<6> : tensor<1xi64>}, decomposition = @tenstorrent.layer_norm.impl} : (tensor<2x3x6xf32>) -> tensor<2x3x6xf32>
    return %0 : tensor<2x3x6xf32>
  }
  func.func private @tenstorrent.layer_norm.impl(%arg0: tensor<2x3x6xf32>) -> tensor<2x3x6xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<6xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<6xf32>
    %0 = stablehlo.reshape %arg0 : (tensor<2x3x6xf32>) -> tensor<1x6x6xf32>
    %output, %batch_mean, %batch_var = "stablehlo.batch_norm_training"(%0, %cst_0, %cst) <{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}> : (tensor<1x6x6xf32>, tensor<6xf32>, tensor<6xf32>) -> (tensor<1x6x6xf32>, tensor<6xf32>, tensor<6xf32>)
    %1 = stablehlo.reshape %output : (tensor<1x6x6xf32>) -> tensor<2x3x6xf32>
    return %1 : tensor<2x3x6xf32>
  }
}
