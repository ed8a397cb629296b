module @IrToHlo {
  func.func @main(%arg0: tensor<6xf32>, %arg1: tensor<4x6xf32>, %arg2: tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>, tensor<6xf32>) {
    %0 = stablehlo.composite "tenstorrent.rms_norm" %arg1, %arg0 {composite_attributes = {epsilon = 9.99999997E-7 : f32, normalized_shape = dense<6> : tensor<1xi64>}, decomposition = @tenstorrent.rms_norm.impl} : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
    %1:2 = stablehlo.composite "tenstorrent.rms_norm_backward" %arg2, %arg1, %arg0 {composite_attributes = {epsilon = 9.99999997E-7 : f32, normalized_shape = dense<6> : tensor<1xi64>, output_mask = dense<true> : tensor<2xi1>}, decomposition = @tenstorrent.rms_norm_backward.impl} : (tensor<4x6xf32>, tensor<4x6xf32>, tensor<6xf32>) -> (tensor<4x6xf32>, tensor<6xf32>)
    return %0, %1#0, %1#1 : tensor<4x6xf32>, tensor<4x6xf32>, tensor<6xf32>
  }
  func.func private @tenstorrent.rms_norm.impl(%arg0: tensor<4x6xf32>, %arg1: tensor<6xf32>) -> tensor<4x6xf32> {
    %cst = stablehlo.constant dense<9.99999997E-7> : tensor<4x1xf32>
    %cst_0 = stablehlo.constant dense<0.166666672> : tensor<4xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %cst_2 = stablehlo.constant dense<2.000000e+00> : tensor<4x6xf32>
    %0 = stablehlo.power %arg0, %cst_2 : tensor<4x6xf32>
    %1 = stablehlo.reduce(%0 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>
    %2 = stablehlo.multiply %1, %cst_0 : tensor<4xf32>
    %3 = stablehlo.reshape %2 : (tensor<4xf32>) -> tensor<4x1xf32>
    %4 = stablehlo.add %3, %cst : tensor<4x1xf32>
    %5 = stablehlo.rsqrt %4 : tensor<4x1xf32>
    %6 = stablehlo.reshape %5 : (tensor<4x1xf32>) -> tensor<4xf32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [0] : (tensor<4xf32>) -> tensor<4x6xf32>
    %8 = stablehlo.multiply %arg0, %7 : tensor<4x6xf32>
    %9 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<6xf32>) -> tensor<4x6xf32>
    %10 = stablehlo.multiply %8, %9 : tensor<4x6xf32>
    return %10 : tensor<4x6xf32>
  }
  func.func private @tenstorrent.rms_norm_backward.impl(%arg0: tensor<4x6xf32>, %arg1: tensor<4x6xf32>, %arg2: tensor<6xf32>) -> (tensor<4x6xf32>, tensor<6xf32>) {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<4x6xf32>
    %cst_0 = stablehlo.constant dense<6.000000e+00> : tensor<4x6xf32>
    %cst_1 = stablehlo.constant dense<3.000000e+00> : tensor<4x1xf32>
    %cst_2 = stablehlo.constant dense<-5.000000e-01> : tensor<4x1xf32>
    %cst_3 = stablehlo.constant dense<9.99999997E-7> : tensor<4x1xf32>
    %cst_4 = stablehlo.constant dense<0.166666672> : tensor<4xf32>
    %cst_5 = stablehlo.constant dense<2.000000e+00> : tensor<4x6xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<6xf32>) -> tensor<4x6xf32>
    %1 = stablehlo.multiply %arg0, %0 : tensor<4x6xf32>
    %2 = stablehlo.power %arg1, %cst_5 : tensor<4x6xf32>
    %3 = stablehlo.reduce(%2 init: %cst_6) applies stablehlo.add across dimensions = [1] : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>
    %4 = stablehlo.multiply %3, %cst_4 : tensor<4xf32>
    %5 = stablehlo.reshape %4 : (tensor<4xf32>) -> tensor<4x1xf32>
    %6 = stablehlo.add %5, %cst_3 : tensor<4x1xf32>
    %7 = stablehlo.rsqrt %6 : tensor<4x1xf32>
    %8 = stablehlo.reshape %7 : (tensor<4x1xf32>) -> tensor<4xf32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0] : (tensor<4xf32>) -> tensor<4x6xf32>
    %10 = stablehlo.multiply %1, %9 : tensor<4x6xf32>
    %11 = stablehlo.multiply %1, %arg1 : tensor<4x6xf32>
    %12 = stablehlo.reduce(%11 init: %cst_6) applies stablehlo.add across dimensions = [1] : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>
    %13 = stablehlo.reshape %12 : (tensor<4xf32>) -> tensor<4x1xf32>
    %14 = stablehlo.multiply %13, %cst_2 : tensor<4x1xf32>
    %15 = stablehlo.power %7, %cst_1 : tensor<4x1xf32>
    %16 = stablehlo.multiply %14, %15 : tensor<4x1xf32>
    %17 = stablehlo.reshape %16 : (tensor<4x1xf32>) -> tensor<4xf32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0] : (tensor<4xf32>) -> tensor<4x6xf32>
    %19 = stablehlo.divide %18, %cst_0 : tensor<4x6xf32>
    %20 = stablehlo.power %arg1, %cst : tensor<4x6xf32>
    %21 = stablehlo.multiply %20, %cst_5 : tensor<4x6xf32>
    %22 = stablehlo.multiply %19, %21 : tensor<4x6xf32>
    %23 = stablehlo.add %10, %22 : tensor<4x6xf32>
    %24 = stablehlo.multiply %arg1, %9 : tensor<4x6xf32>
    %25 = stablehlo.multiply %arg0, %24 : tensor<4x6xf32>
    %26 = stablehlo.reduce(%25 init: %cst_6) applies stablehlo.add across dimensions = [0] : (tensor<4x6xf32>, tensor<f32>) -> tensor<6xf32>
    return %23, %26 : tensor<4x6xf32>, tensor<6xf32>
  }
}
