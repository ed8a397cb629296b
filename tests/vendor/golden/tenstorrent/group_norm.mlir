module @IrToHlo {
  func.func @main(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>, %arg2: tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32> {
    %0 = stablehlo.composite "tenstorrent.group_norm" %arg2, %arg1, %arg0 {composite_attributes = {channel_dim = 1 : i64, epsilon = 9.99999974E-6 : f32, num_groups = 2 : i64}, decomposition = @tenstorrent.group_norm.impl} : (tensor<2x4x3x3xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4x3x3xf32>
    return %0 : tensor<2x4x3x3xf32>
  }
  func.func private @tenstorrent.group_norm.impl(%arg0: tensor<2x4x3x3xf32>, %arg1: tensor<4xf32>, %arg2: tensor<4xf32>) -> tensor<2x4x3x3xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<4xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<4xf32>
    %0 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<4xf32>) -> tensor<2x4x3x3xf32>
    %1 = stablehlo.reshape %arg0 : (tensor<2x4x3x3xf32>) -> tensor<1x4x18xf32>
    %output, %batch_mean, %batch_var = "stablehlo.batch_norm_training"(%1, %cst_0, %cst) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<1x4x18xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<1x4x18xf32>, tensor<4xf32>, tensor<4xf32>)
    %2 = stablehlo.reshape %output : (tensor<1x4x18xf32>) -> tensor<2x4x3x3xf32>
    %3 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<4xf32>) -> tensor<2x4x3x3xf32>
    %4 = stablehlo.multiply %2, %3 : tensor<2x4x3x3xf32>
    %5 = stablehlo.add %0, %4 : tensor<2x4x3x3xf32>
    return %5 : tensor<2x4x3x3xf32>
  }
}
