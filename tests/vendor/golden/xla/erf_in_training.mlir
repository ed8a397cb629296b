module @IrToHlo {
  func.func @main(%arg0: tensor<2x3xf32>, %arg1: tensor<2x3xf32>, %arg2: tensor<f32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<2x3xf32>
    %0 = stablehlo.composite "chlo.erf" %arg0 {decomposition = @chlo.erf.impl, version = 1 : i32} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %1 = stablehlo.power %arg0, %cst : tensor<2x3xf32>
    %2 = stablehlo.negate %1 : tensor<2x3xf32>
    %3 = stablehlo.exponential %2 : tensor<2x3xf32>
    %4 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
    %5 = stablehlo.multiply %3, %4 : tensor<2x3xf32>
    %6 = stablehlo.multiply %5, %arg1 : tensor<2x3xf32>
    return %0, %6 : tensor<2x3xf32>, tensor<2x3xf32>
  }
  func.func private @chlo.erf.impl(%arg0: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %0 = chlo.erf %arg0 : tensor<2x3xf32> -> tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  }
}
