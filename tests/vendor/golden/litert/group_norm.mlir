module @IrToHlo {
  func.func @main(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>, %arg2: tensor<2x4x3x5xf32>) -> tensor<2x4x3x5xf32> {
    %0 = stablehlo.transpose %arg2, dims = [0, 2, 3, 1] : (tensor<2x4x3x5xf32>) -> tensor<2x3x5x4xf32>
    %1 = stablehlo.composite "odml.group_norm" %0, %arg1, %arg0 {composite_attributes = {channel_axis = 3 : i64, epsilon = 9.99999974E-6 : f32, num_groups = 2 : i64, reduction_axes = dense<[1, 2, 3]> : tensor<3xi64>, sub_type = 0 : i64}, decomposition = @odml.group_norm.impl} : (tensor<2x3x5x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x3x5x4xf32>
    %2 = stablehlo.transpose %1, dims = [0, 3, 1, 2] : (tensor<2x3x5x4xf32>) -> tensor<2x4x3x5xf32>
    return %2 : tensor<2x4x3x5xf32>
  }
  func.func private @odml.group_norm.impl(%arg0: tensor<2x3x5x4xf32>, %arg1: tensor<4xf32>, %arg2: tensor<4xf32>) -> tensor<2x3x5x4xf32> {
    %cst = stablehlo.constant dense<9.99999974E-6> : tensor<2x1x2x1xf32>
    %cst_0 = stablehlo.constant dense<2.000000e+00> : tensor<2x15x2x2xf32>
    %cst_1 = stablehlo.constant dense<3.000000e+01> : tensor<2x1x2x1xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reshape %arg0 : (tensor<2x3x5x4xf32>) -> tensor<2x15x2x2xf32>
    %1 = stablehlo.reduce(%0 init: %cst_2) applies stablehlo.add across dimensions = [1, 3] : (tensor<2x15x2x2xf32>, tensor<f32>) -> tensor<2x2xf32>
    %2 = stablehlo.reshape %1 : (tensor<2x2xf32>) -> tensor<2x1x2x1xf32>
    %3 = stablehlo.divide %2, %cst_1 : tensor<2x1x2x1xf32>
    %4 = stablehlo.reshape %3 : (tensor<2x1x2x1xf32>) -> tensor<2x2xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 2] : (tensor<2x2xf32>) -> tensor<2x15x2x2xf32>
    %6 = stablehlo.subtract %0, %5 : tensor<2x15x2x2xf32>
    %7 = stablehlo.power %6, %cst_0 : tensor<2x15x2x2xf32>
    %8 = stablehlo.reduce(%7 init: %cst_2) applies stablehlo.add across dimensions = [1, 3] : (tensor<2x15x2x2xf32>, tensor<f32>) -> tensor<2x2xf32>
    %9 = stablehlo.reshape %8 : (tensor<2x2xf32>) -> tensor<2x1x2x1xf32>
    %10 = stablehlo.divide %9, %cst_1 : tensor<2x1x2x1xf32>
    %11 = stablehlo.add %10, %cst : tensor<2x1x2x1xf32>
    %12 = stablehlo.rsqrt %11 : tensor<2x1x2x1xf32>
    %13 = stablehlo.reshape %12 : (tensor<2x1x2x1xf32>) -> tensor<2x2xf32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0, 2] : (tensor<2x2xf32>) -> tensor<2x15x2x2xf32>
    %15 = stablehlo.multiply %6, %14 : tensor<2x15x2x2xf32>
    %16 = stablehlo.reshape %15 : (tensor<2x15x2x2xf32>) -> tensor<2x3x5x4xf32>
    %17 = stablehlo.broadcast_in_dim %arg1, dims = [3] : (tensor<4xf32>) -> tensor<2x3x5x4xf32>
    %18 = stablehlo.multiply %16, %17 : tensor<2x3x5x4xf32>
    %19 = stablehlo.broadcast_in_dim %arg2, dims = [3] : (tensor<4xf32>) -> tensor<2x3x5x4xf32>
    %20 = stablehlo.add %18, %19 : tensor<2x3x5x4xf32>
    return %20 : tensor<2x3x5x4xf32>
  }
}
