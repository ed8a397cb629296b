module @IrToHlo {
  func.func @main(%arg0: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %0 = stablehlo.composite "aten.gelu.default" %arg0 {composite_attributes = {approximate = "none"}, decomposition = @aten.gelu.default.impl} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  }
  func.func private @aten.gelu.default.impl(%arg0: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<2x3xf32>
    %cst_0 = stablehlo.constant dense<0.707106769> : tensor<2x3xf32>
    %cst_1 = stablehlo.constant dense<5.000000e-01> : tensor<2x3xf32>
    %0 = stablehlo.multiply %arg0, %cst_1 : tensor<2x3xf32>
    %1 = stablehlo.multiply %arg0, %cst_0 : tensor<2x3xf32>
    %2 = chlo.erf %1 : tensor<2x3xf32> -> tensor<2x3xf32>
    %3 = stablehlo.add %2, %cst : tensor<2x3xf32>
    %4 = stablehlo.multiply %0, %3 : tensor<2x3xf32>
    return %4 : tensor<2x3xf32>
  }
}
