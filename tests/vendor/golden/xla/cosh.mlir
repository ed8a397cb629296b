module @IrToHlo {
  func.func @main(%arg0: tensor<6xf32>) -> tensor<6xf32> {
    %0 = stablehlo.composite "chlo.cosh" %arg0 {decomposition = @chlo.cosh.impl, version = 1 : i32} : (tensor<6xf32>) -> tensor<6xf32>
    return %0 : tensor<6xf32>
  }
  func.func private @chlo.cosh.impl(%arg0: tensor<6xf32>) -> tensor<6xf32> {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<6xf32>
    %cst_0 = stablehlo.constant dense<-0.693147182> : tensor<6xf32>
    %0 = stablehlo.add %arg0, %cst_0 : tensor<6xf32>
    %1 = stablehlo.exponential %0 : tensor<6xf32>
    %2 = stablehlo.negate %arg0 : tensor<6xf32>
    %3 = stablehlo.add %2, %cst_0 : tensor<6xf32>
    %4 = stablehlo.exponential %3 : tensor<6xf32>
    %5 = stablehlo.add %1, %4 : tensor<6xf32>
    %6 = stablehlo.maximum %5, %cst : tensor<6xf32>
    return %6 : tensor<6xf32>
  }
}
