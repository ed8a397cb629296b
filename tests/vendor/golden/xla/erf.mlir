module @IrToHlo {
  func.func @main(%arg0: tensor<6xf32>) -> tensor<6xf32> {
    %0 = stablehlo.composite "chlo.erf" %arg0 {decomposition = @chlo.erf.impl, version = 1 : i32} : (tensor<6xf32>) -> tensor<6xf32>
    return %0 : tensor<6xf32>
  }
  func.func private @chlo.erf.impl(%arg0: tensor<6xf32>) -> tensor<6xf32> {
    %0 = chlo.erf %arg0 : tensor<6xf32> -> tensor<6xf32>
    return %0 : tensor<6xf32>
  }
}
