module @IrToHlo {
  func.func @main(%arg0: tensor<6xf32>) -> tensor<6xf32> {
    %0 = stablehlo.composite "chlo.atanh" %arg0 {decomposition = @chlo.atanh.impl, version = 1 : i32} : (tensor<6xf32>) -> tensor<6xf32>
    return %0 : tensor<6xf32>
  }
  func.func private @chlo.atanh.impl(%arg0: tensor<6xf32>) -> tensor<6xf32> {
    %cst = stablehlo.constant dense<5.000000e-01> : tensor<6xf32>
    %cst_0 = stablehlo.constant dense<0x7FC00000> : tensor<6xf32>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<6xf32>
    %0 = stablehlo.abs %arg0 : tensor<6xf32>
    %1 = stablehlo.compare GT, %0, %cst_1 : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xi1>
    %2 = stablehlo.log_plus_one %arg0 : tensor<6xf32>
    %3 = stablehlo.negate %arg0 : tensor<6xf32>
    %4 = stablehlo.log_plus_one %3 : tensor<6xf32>
    %5 = stablehlo.subtract %2, %4 : tensor<6xf32>
    %6 = stablehlo.multiply %5, %cst : tensor<6xf32>
    %7 = stablehlo.select %1, %cst_0, %6 : tensor<6xi1>, tensor<6xf32>
    return %7 : tensor<6xf32>
  }
}
