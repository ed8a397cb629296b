module @IrToHlo {
  func.func @main(%arg0: tensor<6xf32>, %arg1: tensor<6xf32>, %arg2: tensor<2x4x6xf32>) -> tensor<2x4x6xf32> {
    %0 = stablehlo.composite "odml.group_norm" %arg2, %arg1, %arg0 {composite_attributes = {channel_axis = 1 : i64, epsilon = 9.99999974E-6 : f32, num_groups = 1 : i64, sub_type = 1 : i64}, decomposition = @odml.group_norm.impl} : (tensor<2x4x6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<2x4x6xf32>
    return %0 : tensor<2x4x6xf32>
  }
  func.func private @odml.group_norm.impl(%arg0: tensor<2x4x6xf32>, %arg1: tensor<6xf32>, %arg2: tensor<6xf32>) -> tensor<2x4x6xf32> {
    %cst = stablehlo.constant dense<9.99999974E-6> : tensor<2x4x1xf32>
    %cst_0 = stablehlo.constant dense<2.000000e+00> : tensor<2x4x6xf32>
    %cst_1 = stablehlo.constant dense<6.000000e+00> : tensor<2x4x1xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst_2) applies stablehlo.add across dimensions = [2] : (tensor<2x4x6xf32>, tensor<f32>) -> tensor<2x4xf32>
    %1 = stablehlo.reshape %0 : (tensor<2x4xf32>) -> tensor<2x4x1xf32>
    %2 = stablehlo.divide %1, %cst_1 : tensor<2x4x1xf32>
    %3 = stablehlo.reshape %2 : (tensor<2x4x1xf32>) -> tensor<2x4xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1] : (tensor<2x4xf32>) -> tensor<2x4x6xf32>
    %5 = stablehlo.subtract %arg0, %4 : tensor<2x4x6xf32>
    %6 = stablehlo.power %5, %cst_0 : tensor<2x4x6xf32>
    %7 = stablehlo.reduce(%6 init: %cst_2) applies stablehlo.add across dimensions = [2] : (tensor<2x4x6xf32>, tensor<f32>) -> tensor<2x4xf32>
    %8 = stablehlo.reshape %7 : (tensor<2x4xf32>) -> tensor<2x4x1xf32>
    %9 = stablehlo.divide %8, %cst_1 : tensor<2x4x1xf32>
    %10 = stablehlo.add %9, %cst : tensor<2x4x1xf32>
    %11 = stablehlo.rsqrt %10 : tensor<2x4x1xf32>
    %12 = stablehlo.reshape %11 : (tensor<2x4x1xf32>) -> tensor<2x4xf32>
    %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1] : (tensor<2x4xf32>) -> tensor<2x4x6xf32>
    %14 = stablehlo.multiply %5, %13 : tensor<2x4x6xf32>
    %15 = stablehlo.broadcast_in_dim %arg1, dims = [2] : (tensor<6xf32>) -> tensor<2x4x6xf32>
    %16 = stablehlo.multiply %14, %15 : tensor<2x4x6xf32>
    %17 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<6xf32>) -> tensor<2x4x6xf32>
    %18 = stablehlo.add %16, %17 : tensor<2x4x6xf32>
    return %18 : tensor<2x4x6xf32>
  }
}
