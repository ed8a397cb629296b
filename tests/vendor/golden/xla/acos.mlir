module @IrToHlo {
  func.func @main(%arg0: tensor<6xf32>) -> tensor<6xf32> {
    %0 = stablehlo.composite "chlo.acos" %arg0 {decomposition = @chlo.acos.impl, version = 1 : i32} : (tensor<6xf32>) -> tensor<6xf32>
    return %0 : tensor<6xf32>
  }
  func.func private @chlo.acos.impl(%arg0: tensor<6xf32>) -> tensor<6xf32> {
    %cst = stablehlo.constant dense<3.14159274> : tensor<6xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<6xf32>
    %cst_1 = stablehlo.constant dense<2.000000e+00> : tensor<6xf32>
    %cst_2 = stablehlo.constant dense<-1.000000e+00> : tensor<6xf32>
    %0 = stablehlo.compare NE, %arg0, %cst_2 : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xi1>
    %1 = stablehlo.multiply %arg0, %arg0 : tensor<6xf32>
    %2 = stablehlo.subtract %cst_0, %1 : tensor<6xf32>
    %3 = stablehlo.sqrt %2 : tensor<6xf32>
    %4 = stablehlo.add %arg0, %cst_0 : tensor<6xf32>
    %5 = stablehlo.atan2 %3, %4 : tensor<6xf32>
    %6 = stablehlo.multiply %5, %cst_1 : tensor<6xf32>
    %7 = stablehlo.select %0, %6, %cst : tensor<6xi1>, tensor<6xf32>
    return %7 : tensor<6xf32>
  }
}
