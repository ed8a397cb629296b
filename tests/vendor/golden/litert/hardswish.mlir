module @IrToHlo {
  func.func @main(%arg0: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %0 = stablehlo.composite "aten.hardswish.default" %arg0 {decomposition = @aten.hardswish.default.impl} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  }
  func.func private @aten.hardswish.default.impl(%arg0: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %cst = stablehlo.constant dense<6.000000e+00> : tensor<2x3xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<2x3xf32>
    %cst_1 = stablehlo.constant dense<3.000000e+00> : tensor<2x3xf32>
    %0 = stablehlo.add %arg0, %cst_1 : tensor<2x3xf32>
    %1 = stablehlo.maximum %0, %cst_0 : tensor<2x3xf32>
    %2 = stablehlo.minimum %1, %cst : tensor<2x3xf32>
    %3 = stablehlo.divide %2, %cst : tensor<2x3xf32>
    %4 = stablehlo.multiply %arg0, %3 : tensor<2x3xf32>
    return %4 : tensor<2x3xf32>
  }
}
