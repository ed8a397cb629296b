module @IrToHlo {
  func.func @main(%arg0: tensor<6xf32>) -> tensor<6xf32> {
    %0 = stablehlo.composite "chlo.sinh" %arg0 {decomposition = @chlo.sinh.impl, version = 1 : i32} : (tensor<6xf32>) -> tensor<6xf32>
    return %0 : tensor<6xf32>
  }
  func.func private @chlo.sinh.impl(%arg0: tensor<6xf32>) -> tensor<6xf32> {
    %cst = stablehlo.constant dense<-0.693147182> : tensor<6xf32>
    %cst_0 = stablehlo.constant dense<5.000000e-01> : tensor<6xf32>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<6xf32>
    %0 = stablehlo.abs %arg0 : tensor<6xf32>
    %1 = stablehlo.compare LT, %0, %cst_1 : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xi1>
    %2 = stablehlo.exponential_minus_one %arg0 : tensor<6xf32>
    %3 = stablehlo.add %2, %cst_1 : tensor<6xf32>
    %4 = stablehlo.divide %2, %3 : tensor<6xf32>
    %5 = stablehlo.add %2, %4 : tensor<6xf32>
    %6 = stablehlo.multiply %5, %cst_0 : tensor<6xf32>
    %7 = stablehlo.add %arg0, %cst : tensor<6xf32>
    %8 = stablehlo.exponential %7 : tensor<6xf32>
    %9 = stablehlo.negate %arg0 : tensor<6xf32>
    %10 = stablehlo.add %9, %cst : tensor<6xf32>
    %11 = stablehlo.exponential %10 : tensor<6xf32>
    %12 = stablehlo.subtract %8, %11 : tensor<6xf32>
    %13 = stablehlo.select %1, %6, %12 : tensor<6xi1>, tensor<6xf32>
    return %13 : tensor<6xf32>
  }
}
