module @IrToHlo {
  func.func @main(%arg0: tensor<6xf32>, %arg1: tensor<6xf32>, %arg2: tensor<4x6xf32>, %arg3: tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>) {
    %0 = stablehlo.composite "tenstorrent.layer_norm" %arg2, %arg1, %arg0 {composite_attributes = {epsilon = 9.99999974E-6 : f32, normalized_shape = dense<6> : tensor<1xi64>}, decomposition = @tenstorrent.layer_norm.impl} : (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
    %1:3 = stablehlo.composite "tenstorrent.layer_norm_backward" %arg3, %arg2, %arg1, %arg0 {composite_attributes = {epsilon = 9.99999974E-6 : f32, normalized_shape = dense<6> : tensor<1xi64>, output_mask = dense<true> : tensor<3xi1>}, decomposition = @tenstorrent.layer_norm_backward.impl} : (tensor<4x6xf32>, tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>) -> (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>)
    return %0, %1#0, %1#1, %1#2 : tensor<4x6xf32>, tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>
  }
  func.func private @tenstorrent.layer_norm.impl(%arg0: tensor<4x6xf32>, %arg1: tensor<6xf32>, %arg2: tensor<6xf32>) -> tensor<4x6xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<4xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<4xf32>
    %0 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<6xf32>) -> tensor<4x6xf32>
    %1 = stablehlo.reshape %arg0 : (tensor<4x6xf32>) -> tensor<1x4x6xf32>
    %output, %batch_mean, %batch_var = "stablehlo.batch_norm_training"(%1, %cst_0, %cst) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<1x4x6xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<1x4x6xf32>, tensor<4xf32>, tensor<4xf32>)
    %2 = stablehlo.reshape %output : (tensor<1x4x6xf32>) -> tensor<4x6xf32>
    %3 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<6xf32>) -> tensor<4x6xf32>
    %4 = stablehlo.multiply %2, %3 : tensor<4x6xf32>
    %5 = stablehlo.add %0, %4 : tensor<4x6xf32>
    return %5 : tensor<4x6xf32>
  }
  func.func private @tenstorrent.layer_norm_backward.impl(%arg0: tensor<4x6xf32>, %arg1: tensor<4x6xf32>, %arg2: tensor<6xf32>, %arg3: tensor<6xf32>) -> (tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>) {
    %cst = stablehlo.constant dense<9.99999974E-6> : tensor<4xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<4xf32>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<4xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reshape %arg1 : (tensor<4x6xf32>) -> tensor<1x4x6xf32>
    %output, %batch_mean, %batch_var = "stablehlo.batch_norm_training"(%0, %cst_1, %cst_0) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<1x4x6xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<1x4x6xf32>, tensor<4xf32>, tensor<4xf32>)
    %1 = stablehlo.add %batch_var, %cst : tensor<4xf32>
    %2 = stablehlo.rsqrt %1 : tensor<4xf32>
    %3 = stablehlo.divide %cst_1, %2 : tensor<4xf32>
    %4 = stablehlo.multiply %3, %3 : tensor<4xf32>
    %5 = stablehlo.subtract %4, %cst : tensor<4xf32>
    %6 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<6xf32>) -> tensor<4x6xf32>
    %7 = stablehlo.multiply %arg0, %6 : tensor<4x6xf32>
    %8 = stablehlo.reshape %7 : (tensor<4x6xf32>) -> tensor<1x4x6xf32>
    %grad_operand, %grad_scale, %grad_offset = "stablehlo.batch_norm_grad"(%0, %cst_1, %batch_mean, %5, %8) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<1x4x6xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<1x4x6xf32>) -> (tensor<1x4x6xf32>, tensor<4xf32>, tensor<4xf32>)
    %9 = stablehlo.reshape %grad_operand : (tensor<1x4x6xf32>) -> tensor<4x6xf32>
    %10 = stablehlo.reshape %output : (tensor<1x4x6xf32>) -> tensor<4x6xf32>
    %11 = stablehlo.multiply %arg0, %10 : tensor<4x6xf32>
    %12 = stablehlo.reduce(%11 init: %cst_2) applies stablehlo.add across dimensions = [0] : (tensor<4x6xf32>, tensor<f32>) -> tensor<6xf32>
    %13 = stablehlo.reduce(%arg0 init: %cst_2) applies stablehlo.add across dimensions = [0] : (tensor<4x6xf32>, tensor<f32>) -> tensor<6xf32>
    return %9, %12, %13 : tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>
  }
}
