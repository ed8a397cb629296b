module @IrToHlo {
  func.func @main(%arg0: tensor<6xf32>) -> tensor<6xf32> {
    %0 = stablehlo.composite "chlo.acosh" %arg0 {decomposition = @chlo.acosh.impl, version = 1 : i32} : (tensor<6xf32>) -> tensor<6xf32>
    return %0 : tensor<6xf32>
  }
  func.func private @chlo.acosh.impl(%arg0: tensor<6xf32>) -> tensor<6xf32> {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<6xf32>
    %cst_0 = stablehlo.constant dense<0.693147182> : tensor<6xf32>
    %cst_1 = stablehlo.constant dense<1.8446743E+19> : tensor<6xf32>
    %cst_2 = stablehlo.constant dense<0x7FC00000> : tensor<6xf32>
    %cst_3 = stablehlo.constant dense<-1.000000e+00> : tensor<6xf32>
    %0 = stablehlo.compare LT, %arg0, %cst_3 : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xi1>
    %1 = stablehlo.compare GE, %arg0, %cst_1 : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xi1>
    %2 = stablehlo.log %arg0 : tensor<6xf32>
    %3 = stablehlo.add %2, %cst_0 : tensor<6xf32>
    %4 = stablehlo.add %arg0, %cst : tensor<6xf32>
    %5 = stablehlo.subtract %arg0, %cst : tensor<6xf32>
    %6 = stablehlo.multiply %4, %5 : tensor<6xf32>
    %7 = stablehlo.sqrt %6 : tensor<6xf32>
    %8 = stablehlo.add %arg0, %7 : tensor<6xf32>
    %9 = stablehlo.log %8 : tensor<6xf32>
    %10 = stablehlo.select %1, %3, %9 : tensor<6xi1>, tensor<6xf32>
    %11 = stablehlo.select %0, %cst_2, %10 : tensor<6xi1>, tensor<6xf32>
    return %11 : tensor<6xf32>
  }
}
