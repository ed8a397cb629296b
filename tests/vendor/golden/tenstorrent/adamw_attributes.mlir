module @IrToHlo {
  func.func @main(%arg0: tensor<2x3xf32>, %arg1: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<2x3xf32>
    %0:3 = stablehlo.composite "tenstorrent.adamw" %arg1, %arg0, %cst, %cst {composite_attributes = {beta1 = 0.899999976 : f32, beta1_pow = 0.899999976 : f32, beta2 = 9.990000e-01 : f32, beta2_pow = 9.990000e-01 : f32, epsilon = 9.99999993E-9 : f32, lr = 0.00999999977 : f32, stochastic_rounding = false, weight_decay = 0.00999999977 : f32}, decomposition = @tenstorrent.adamw.impl} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>)
    return %0#0, %0#1, %0#2 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
  }
  func.func private @tenstorrent.adamw.impl(%arg0: tensor<2x3xf32>, %arg1: tensor<2x3xf32>, %arg2: tensor<2x3xf32>, %arg3: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
    %cst = stablehlo.constant dense<9.99999993E-9> : tensor<2x3xf32>
    %cst_0 = stablehlo.constant dense<0.0316227749> : tensor<2x3xf32>
    %cst_1 = stablehlo.constant dense<1.000000e-03> : tensor<2x3xf32>
    %cst_2 = stablehlo.constant dense<9.990000e-01> : tensor<2x3xf32>
    %cst_3 = stablehlo.constant dense<1.000000e-01> : tensor<2x3xf32>
    %cst_4 = stablehlo.constant dense<0.999899983> : tensor<2x3xf32>
    %0 = stablehlo.multiply %arg0, %cst_4 : tensor<2x3xf32>
    %1 = stablehlo.subtract %arg1, %arg2 : tensor<2x3xf32>
    %2 = stablehlo.multiply %1, %cst_3 : tensor<2x3xf32>
    %3 = stablehlo.add %arg2, %2 : tensor<2x3xf32>
    %4 = stablehlo.multiply %arg3, %cst_2 : tensor<2x3xf32>
    %5 = stablehlo.multiply %arg1, %arg1 : tensor<2x3xf32>
    %6 = stablehlo.multiply %5, %cst_1 : tensor<2x3xf32>
    %7 = stablehlo.add %4, %6 : tensor<2x3xf32>
    %8 = stablehlo.sqrt %7 : tensor<2x3xf32>
    %9 = stablehlo.divide %8, %cst_0 : tensor<2x3xf32>
    %10 = stablehlo.add %9, %cst : tensor<2x3xf32>
    %11 = stablehlo.divide %3, %10 : tensor<2x3xf32>
    %12 = stablehlo.multiply %11, %cst_3 : tensor<2x3xf32>
    %13 = stablehlo.subtract %0, %12 : tensor<2x3xf32>
    return %13, %3, %7 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
  }
}
