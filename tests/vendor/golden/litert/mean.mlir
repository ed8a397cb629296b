module @IrToHlo {
  func.func @main(%arg0: tensor<2x3x4xf32>) -> tensor<1x3x1xf32> {
    %0 = stablehlo.composite "tfl.mean" %arg0 {composite_attributes = {axis = dense<[2, 0]> : tensor<2xi64>, keep_dims = true}, decomposition = @tfl.mean.impl} : (tensor<2x3x4xf32>) -> tensor<1x3x1xf32>
    return %0 : tensor<1x3x1xf32>
  }
  func.func private @tfl.mean.impl(%arg0: tensor<2x3x4xf32>) -> tensor<1x3x1xf32> {
    %cst = stablehlo.constant dense<1.250000e-01> : tensor<3xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst_0) applies stablehlo.add across dimensions = [2, 0] : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<3xf32>
    %1 = stablehlo.multiply %0, %cst : tensor<3xf32>
    %2 = stablehlo.reshape %1 : (tensor<3xf32>) -> tensor<1x3x1xf32>
    return %2 : tensor<1x3x1xf32>
  }
}
