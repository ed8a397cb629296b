module @IrToHlo {
  func.func @main(%arg0: tensor<f32>, %arg1: tensor<f32>, %arg2: tensor<f32>, %arg3: tensor<2x3xf32>, %arg4: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<2x3xf32>
    %0 = stablehlo.reshape %arg2 : (tensor<f32>) -> tensor<1xf32>
    %1 = stablehlo.reshape %arg1 : (tensor<f32>) -> tensor<1xf32>
    %2 = stablehlo.reshape %arg0 : (tensor<f32>) -> tensor<1xf32>
    %3:4 = stablehlo.composite "tenstorrent.adamw" %arg4, %arg3, %cst, %cst, %0, %1, %2, %cst {composite_attributes = {beta1 = 8.000000e-01 : f32, beta2 = 9.900000e-01 : f32, epsilon = 9.99999993E-9 : f32, stochastic_rounding = false, weight_decay = 1.000000e-01 : f32}, decomposition = @tenstorrent.adamw.impl} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>)
    return %3#0, %3#1, %3#2, %3#3 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
  }
  func.func private @tenstorrent.adamw.impl(%arg0: tensor<2x3xf32>, %arg1: tensor<2x3xf32>, %arg2: tensor<2x3xf32>, %arg3: tensor<2x3xf32>, %arg4: tensor<1xf32>, %arg5: tensor<1xf32>, %arg6: tensor<1xf32>, %arg7: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
    %cst = stablehlo.constant dense<9.99999993E-9> : tensor<2x3xf32>
    %cst_0 = stablehlo.constant dense<0.00999999977> : tensor<2x3xf32>
    %cst_1 = stablehlo.constant dense<9.900000e-01> : tensor<2x3xf32>
    %cst_2 = stablehlo.constant dense<2.000000e-01> : tensor<2x3xf32>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<1xf32>
    %cst_4 = stablehlo.constant dense<1.000000e-01> : tensor<1xf32>
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
    %12 = stablehlo.maximum %arg7, %11 : tensor<2x3xf32>
    %13 = stablehlo.sqrt %12 : tensor<2x3xf32>
    %14 = stablehlo.subtract %cst_3, %arg6 : tensor<1xf32>
    %15 = stablehlo.sqrt %14 : tensor<1xf32>
    %16 = stablehlo.reshape %15 : (tensor<1xf32>) -> tensor<f32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
    %18 = stablehlo.divide %13, %17 : tensor<2x3xf32>
    %19 = stablehlo.add %18, %cst : tensor<2x3xf32>
    %20 = stablehlo.divide %7, %19 : tensor<2x3xf32>
    %21 = stablehlo.subtract %cst_3, %arg5 : tensor<1xf32>
    %22 = stablehlo.divide %arg4, %21 : tensor<1xf32>
    %23 = stablehlo.reshape %22 : (tensor<1xf32>) -> tensor<f32>
    %24 = stablehlo.broadcast_in_dim %23, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
    %25 = stablehlo.multiply %20, %24 : tensor<2x3xf32>
    %26 = stablehlo.subtract %4, %25 : tensor<2x3xf32>
    return %26, %7, %11, %12 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
  }
}
