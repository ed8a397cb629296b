module @IrToHlo {
  func.func @main(%arg0: tensor<6xbf16>, %arg1: tensor<6xbf16>, %arg2: tensor<4x6xbf16>) -> tensor<4x6xbf16> {
    %0 = stablehlo.composite "tenstorrent.layer_norm" %arg2, %arg1, %arg0 {composite_attributes = {epsilon = 9.99999974E-6 : f32, normalized_shape = dense<6> : tensor<1xi64>}, decomposition = @tenstorrent.layer_norm.impl} : (tensor<4x6xbf16>, tensor<6xbf16>, tensor<6xbf16>) -> tensor<4x6xbf16>
    return %0 : tensor<4x6xbf16>
  }
  func.func private @tenstorrent.layer_norm.impl(%arg0: tensor<4x6xbf16>, %arg1: tensor<6xbf16>, %arg2: tensor<6xbf16>) -> tensor<4x6xbf16> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<4xbf16>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<4xbf16>
    %0 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<6xbf16>) -> tensor<4x6xbf16>
    %1 = stablehlo.reshape %arg0 : (tensor<4x6xbf16>) -> tensor<1x4x6xbf16>
    %output, %batch_mean, %batch_var = "stablehlo.batch_norm_training"(%1, %cst_0, %cst) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<1x4x6xbf16>, tensor<4xbf16>, tensor<4xbf16>) -> (tensor<1x4x6xbf16>, tensor<4xbf16>, tensor<4xbf16>)
    %2 = stablehlo.reshape %output : (tensor<1x4x6xbf16>) -> tensor<4x6xbf16>
    %3 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<6xbf16>) -> tensor<4x6xbf16>
    %4 = stablehlo.multiply %2, %3 : tensor<4x6xbf16>
    %5 = stablehlo.add %0, %4 : tensor<4x6xbf16>
    return %5 : tensor<4x6xbf16>
  }
}
