module @IrToHlo {
  func.func @main(%arg0: tensor<1x2x6x8xf32>) -> tensor<1x2x3x2xf32> {
    %0 = stablehlo.composite "aten.avg_pool2d.default" %arg0 {composite_attributes = {ceil_mode = false, count_include_pad = true, divisor_override = "py_None", kernel_size = dense<[2, 4]> : tensor<2xi64>, padding = dense<0> : tensor<2xi64>, stride = dense<[2, 4]> : tensor<2xi64>}, decomposition = @aten.avg_pool2d.default.impl} : (tensor<1x2x6x8xf32>) -> tensor<1x2x3x2xf32>
    return %0 : tensor<1x2x3x2xf32>
  }
  func.func private @aten.avg_pool2d.default.impl(%arg0: tensor<1x2x6x8xf32>) -> tensor<1x2x3x2xf32> {
    %cst = stablehlo.constant dense<8.000000e+00> : tensor<1x2x3x2xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reshape %arg0 : (tensor<1x2x6x8xf32>) -> tensor<1x2x3x2x2x4xf32>
    %1 = stablehlo.reduce(%0 init: %cst_0) applies stablehlo.add across dimensions = [3, 5] : (tensor<1x2x3x2x2x4xf32>, tensor<f32>) -> tensor<1x2x3x2xf32>
    %2 = stablehlo.divide %1, %cst : tensor<1x2x3x2xf32>
    return %2 : tensor<1x2x3x2xf32>
  }
}
