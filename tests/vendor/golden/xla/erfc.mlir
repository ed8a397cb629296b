module @IrToHlo {
  func.func @main(%arg0: tensor<6xf32>) -> tensor<6xf32> {
    %0 = stablehlo.composite "chlo.erfc" %arg0 {decomposition = @chlo.erfc.impl, version = 1 : i32} : (tensor<6xf32>) -> tensor<6xf32>
    return %0 : tensor<6xf32>
  }
  func.func private @chlo.erfc.impl(%arg0: tensor<6xf32>) -> tensor<6xf32> {
    %cst = stablehlo.constant dense<-1.12837911> : tensor<6xf32>
    %cst_0 = stablehlo.constant dense<0.376122952> : tensor<6xf32>
    %cst_1 = stablehlo.constant dense<-0.112800106> : tensor<6xf32>
    %cst_2 = stablehlo.constant dense<0.0267075151> : tensor<6xf32>
    %cst_3 = stablehlo.constant dense<-0.00491381669> : tensor<6xf32>
    %cst_4 = stablehlo.constant dense<5.61802299E-4> : tensor<6xf32>
    %cst_5 = stablehlo.constant dense<0.095662862> : tensor<6xf32>
    %cst_6 = stablehlo.constant dense<0.621732413> : tensor<6xf32>
    %cst_7 = stablehlo.constant dense<0.391371638> : tensor<6xf32>
    %cst_8 = stablehlo.constant dense<0.0172516778> : tensor<6xf32>
    %cst_9 = stablehlo.constant dense<1.006000e+01> : tensor<6xf32>
    %cst_10 = stablehlo.constant dense<0.053971976> : tensor<6xf32>
    %cst_11 = stablehlo.constant dense<0.323790789> : tensor<6xf32>
    %cst_12 = stablehlo.constant dense<0.429206669> : tensor<6xf32>
    %cst_13 = stablehlo.constant dense<0.102081165> : tensor<6xf32>
    %cst_14 = stablehlo.constant dense<2.000000e+00> : tensor<6xf32>
    %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<6xf32>
    %cst_16 = stablehlo.constant dense<1.000000e+00> : tensor<6xf32>
    %0 = stablehlo.abs %arg0 : tensor<6xf32>
    %1 = stablehlo.compare GT, %0, %cst_16 : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xi1>
    %2 = stablehlo.compare LT, %arg0, %cst_15 : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xi1>
    %3 = stablehlo.multiply %arg0, %arg0 : tensor<6xf32>
    %4 = stablehlo.negate %3 : tensor<6xf32>
    %5 = stablehlo.exponential %4 : tensor<6xf32>
    %6 = stablehlo.divide %cst_16, %3 : tensor<6xf32>
    %7 = stablehlo.multiply %6, %cst_13 : tensor<6xf32>
    %8 = stablehlo.add %7, %cst_12 : tensor<6xf32>
    %9 = stablehlo.multiply %8, %6 : tensor<6xf32>
    %10 = stablehlo.add %9, %cst_11 : tensor<6xf32>
    %11 = stablehlo.multiply %10, %6 : tensor<6xf32>
    %12 = stablehlo.add %11, %cst_10 : tensor<6xf32>
    %13 = stablehlo.minimum %0, %cst_9 : tensor<6xf32>
    %14 = stablehlo.multiply %6, %cst_8 : tensor<6xf32>
    %15 = stablehlo.add %14, %cst_7 : tensor<6xf32>
    %16 = stablehlo.multiply %15, %6 : tensor<6xf32>
    %17 = stablehlo.add %16, %cst_16 : tensor<6xf32>
    %18 = stablehlo.multiply %17, %6 : tensor<6xf32>
    %19 = stablehlo.add %18, %cst_6 : tensor<6xf32>
    %20 = stablehlo.multiply %19, %6 : tensor<6xf32>
    %21 = stablehlo.add %20, %cst_5 : tensor<6xf32>
    %22 = stablehlo.multiply %13, %21 : tensor<6xf32>
    %23 = stablehlo.divide %12, %22 : tensor<6xf32>
    %24 = stablehlo.multiply %5, %23 : tensor<6xf32>
    %25 = stablehlo.subtract %cst_14, %24 : tensor<6xf32>
    %26 = stablehlo.select %2, %25, %24 : tensor<6xi1>, tensor<6xf32>
    %27 = stablehlo.multiply %3, %cst_4 : tensor<6xf32>
    %28 = stablehlo.add %27, %cst_3 : tensor<6xf32>
    %29 = stablehlo.multiply %28, %3 : tensor<6xf32>
    %30 = stablehlo.add %29, %cst_2 : tensor<6xf32>
    %31 = stablehlo.multiply %30, %3 : tensor<6xf32>
    %32 = stablehlo.add %31, %cst_1 : tensor<6xf32>
    %33 = stablehlo.multiply %32, %3 : tensor<6xf32>
    %34 = stablehlo.add %33, %cst_0 : tensor<6xf32>
    %35 = stablehlo.multiply %34, %3 : tensor<6xf32>
    %36 = stablehlo.add %35, %cst : tensor<6xf32>
    %37 = stablehlo.multiply %arg0, %36 : tensor<6xf32>
    %38 = stablehlo.add %37, %cst_16 : tensor<6xf32>
    %39 = stablehlo.select %1, %26, %38 : tensor<6xi1>, tensor<6xf32>
    return %39 : tensor<6xf32>
  }
}
