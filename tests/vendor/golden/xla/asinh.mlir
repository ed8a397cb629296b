module @IrToHlo {
  func.func @main(%arg0: tensor<6xf32>) -> tensor<6xf32> {
    %0 = stablehlo.composite "chlo.asinh" %arg0 {decomposition = @chlo.asinh.impl, version = 1 : i32} : (tensor<6xf32>) -> tensor<6xf32>
    return %0 : tensor<6xf32>
  }
  func.func private @chlo.asinh.impl(%arg0: tensor<6xf32>) -> tensor<6xf32> {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<6xf32>
    %cst_0 = stablehlo.constant dense<0.693147182> : tensor<6xf32>
    %cst_1 = stablehlo.constant dense<1.8446743E+19> : tensor<6xf32>
    %0 = stablehlo.sign %arg0 : tensor<6xf32>
    %1 = stablehlo.abs %arg0 : tensor<6xf32>
    %2 = stablehlo.compare GE, %1, %cst_1 : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xi1>
    %3 = stablehlo.abs %1 : tensor<6xf32>
    %4 = stablehlo.log %3 : tensor<6xf32>
    %5 = stablehlo.add %4, %cst_0 : tensor<6xf32>
    %6 = stablehlo.compare LE, %1, %cst : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xi1>
    %7 = stablehlo.multiply %1, %1 : tensor<6xf32>
    %8 = stablehlo.add %7, %cst : tensor<6xf32>
    %9 = stablehlo.sqrt %8 : tensor<6xf32>
    %10 = stablehlo.add %9, %cst : tensor<6xf32>
    %11 = stablehlo.divide %7, %10 : tensor<6xf32>
    %12 = stablehlo.add %1, %11 : tensor<6xf32>
    %13 = stablehlo.log_plus_one %12 : tensor<6xf32>
    %14 = stablehlo.add %1, %9 : tensor<6xf32>
    %15 = stablehlo.log %14 : tensor<6xf32>
    %16 = stablehlo.select %6, %13, %15 : tensor<6xi1>, tensor<6xf32>
    %17 = stablehlo.select %2, %5, %16 : tensor<6xi1>, tensor<6xf32>
    %18 = stablehlo.multiply %0, %17 : tensor<6xf32>
    return %18 : tensor<6xf32>
  }
}
