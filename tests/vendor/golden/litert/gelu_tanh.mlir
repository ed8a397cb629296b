module @IrToHlo {
  func.func @main(%arg0: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %0 = stablehlo.composite "aten.gelu.default" %arg0 {composite_attributes = {approximate = "tanh"}, decomposition = @aten.gelu.default.impl} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  }
  func.func private @aten.gelu.default.impl(%arg0: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %cst = stablehlo.constant dense<3.000000e+00> : tensor<2x3xf32>
    %cst_0 = stablehlo.constant dense<4.471500e-02> : tensor<2x3xf32>
    %cst_1 = stablehlo.constant dense<0.797884583> : tensor<2x3xf32>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<2x3xf32>
    %cst_3 = stablehlo.constant dense<5.000000e-01> : tensor<2x3xf32>
    %0 = stablehlo.multiply %arg0, %cst_3 : tensor<2x3xf32>
    %1 = stablehlo.power %arg0, %cst : tensor<2x3xf32>
    %2 = stablehlo.multiply %1, %cst_0 : tensor<2x3xf32>
    %3 = stablehlo.add %arg0, %2 : tensor<2x3xf32>
    %4 = stablehlo.multiply %3, %cst_1 : tensor<2x3xf32>
    %5 = stablehlo.tanh %4 : tensor<2x3xf32>
    %6 = stablehlo.add %5, %cst_2 : tensor<2x3xf32>
    %7 = stablehlo.multiply %0, %6 : tensor<2x3xf32>
    return %7 : tensor<2x3xf32>
  }
}
