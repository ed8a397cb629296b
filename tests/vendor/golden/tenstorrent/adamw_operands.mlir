module @IrToHlo {
  func.func @main(%arg0: tensor<f32>, %arg1: tensor<f32>, %arg2: tensor<f32>, %arg3: tensor<2x3xf32>, %arg4: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<2x3xf32>
    %0 = stablehlo.reshape %arg2 : (tensor<f32>) -> tensor<1xf32>
    %1 = stablehlo.reshape %arg1 : (tensor<f32>) -> tensor<1xf32>
    %2 = stablehlo.reshape %arg0 : (tensor<f32>) -> tensor<1xf32>
    %3:3 = stablehlo.composite "tenstorrent.adamw" %arg4, %arg3, %cst, %cst, %0, %1, %2 {composite_attributes = {beta1 = 0.899999976 : f32, beta2 = 9.990000e-01 : f32, epsilon = 9.99999993E-9 : f32, stochastic_rounding = false, weight_decay = 0.00999999977 : f32}, decomposition = @tenstorrent.adamw.impl} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>)
    return %3#0, %3#1, %3#2 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
  }
  func.func private @tenstorrent.adamw.impl(%arg0: tensor<2x3xf32>, %arg1: tensor<2x3xf32>, %arg2: tensor<2x3xf32>, %arg3: tensor<2x3xf32>, %arg4: tensor<1xf32>, %arg5: tensor<1xf32>, %arg6: tensor<1xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
    %cst = stablehlo.constant dense<9.99999993E-9> : tensor<2x3xf32>
    %cst_0 = stablehlo.constant dense<1.000000e-03> : tensor<2x3xf32>
    %cst_1 = stablehlo.constant dense<9.990000e-01> : tensor<2x3xf32>
    %cst_2 = stablehlo.constant dense<1.000000e-01> : tensor<2x3xf32>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<1xf32>
    %cst_4 = stablehlo.constant dense<0.00999999977> : tensor<1xf32>
    %0 = stablehlo.multiply %arg4, %cst_4 : tensor<1xf32>
    %1 = stablehlo.subtract %cst_3, %0 : tensor<1xf32>
    %2 = stablehlo.reshape %1 : (tensor<1xf32>) -> tensor<f32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
    %4 = stablehlo.multiply %arg0, %3 : tensor<2x3xf32>
    %5 = stablehlo.subtract %arg1, %arg2 : tensor<2x3xf32>
    %6 = stablehlo.multiply %5, %cst_2 : tensor<2x3xf32>
    %7 = stablehlo.add %arg2, %6 : tensor<2x3xf32>
    %8 = stablehlo.multiply %arg3, %cst_1 : tensor<2x3xf32>
    %9 = stablehlo.multiply %arg1, %arg1 : tensor<2x3xf32>
    %10 = stablehlo.multiply %9, %cst_0 : tensor<2x3xf32>
    %11 = stablehlo.add %8, %10 : tensor<2x3xf32>
    %12 = stablehlo.sqrt %11 : tensor<2x3xf32>
    %13 = stablehlo.subtract %cst_3, %arg6 : tensor<1xf32>
    %14 = stablehlo.sqrt %13 : tensor<1xf32>
    %15 = stablehlo.reshape %14 : (tensor<1xf32>) -> tensor<f32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
    %17 = stablehlo.divide %12, %16 : tensor<2x3xf32>
    %18 = stablehlo.add %17, %cst : tensor<2x3xf32>
    %19 = stablehlo.divide %7, %18 : tensor<2x3xf32>
    %20 = stablehlo.subtract %cst_3, %arg5 : tensor<1xf32>
    %21 = stablehlo.divide %arg4, %20 : tensor<1xf32>
    %22 = stablehlo.reshape %21 : (tensor<1xf32>) -> tensor<f32>
    %23 = stablehlo.broadcast_in_dim %22, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
    %24 = stablehlo.multiply %19, %23 : tensor<2x3xf32>
    %25 = stablehlo.subtract %4, %24 : tensor<2x3xf32>
    return %25, %7, %11 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
  }
}
