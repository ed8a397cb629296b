module @IrToHlo {
  func.func @main(%arg0: tensor<6xf32>) -> tensor<6xf32> {
    %0 = stablehlo.composite "chlo.asin" %arg0 {decomposition = @chlo.asin.impl, version = 1 : i32} : (tensor<6xf32>) -> tensor<6xf32>
    return %0 : tensor<6xf32>
  }
  func.func private @chlo.asin.impl(%arg0: tensor<6xf32>) -> tensor<6xf32> {
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<6xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<6xf32>
    %0 = stablehlo.subtract %cst_0, %arg0 : tensor<6xf32>
    %1 = stablehlo.add %arg0, %cst_0 : tensor<6xf32>
    %2 = stablehlo.multiply %0, %1 : tensor<6xf32>
    %3 = stablehlo.sqrt %2 : tensor<6xf32>
    %4 = stablehlo.add %3, %cst_0 : tensor<6xf32>
    %5 = stablehlo.atan2 %arg0, %4 : tensor<6xf32>
    %6 = stablehlo.multiply %5, %cst : tensor<6xf32>
    return %6 : tensor<6xf32>
  }
}
