module @IrToHlo {
  func.func @main(%arg0: tensor<1x2x6x8xf32>) -> tensor<1x2x3x4xf32> {
    %0 = stablehlo.composite "aten.avg_pool2d.default" %arg0 {composite_attributes = {ceil_mode = false, count_include_pad = true, divisor_override = "py_None", kernel_size = dense<2> : tensor<2xi64>, padding = dense<0> : tensor<2xi64>, stride = dense<2> : tensor<2xi64>}, decomposition = @aten.avg_pool2d.default.impl} : (tensor<1x2x6x8xf32>) -> tensor<1x2x3x4xf32>
    return %0 : tensor<1x2x3x4xf32>
  }
  func.func private @aten.avg_pool2d.default.impl(%arg0: tensor<1x2x6x8xf32>) -> tensor<1x2x3x4xf32> {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<6x8xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = "stablehlo.reduce_window"(%arg0, %cst_0) <{base_dilations = array<i64: 1, 1, 1, 1>, padding = dense<0> : tensor<4x2xi64>, window_dilations = array<i64: 1, 1, 1, 1>, window_dimensions = array<i64: 1, 1, 2, 2>, window_strides = array<i64: 1, 1, 2, 2>}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %4 = stablehlo.add %arg1, %arg2 : tensor<f32>
      stablehlo.return %4 : tensor<f32>
    }) : (tensor<1x2x6x8xf32>, tensor<f32>) -> tensor<1x2x3x4xf32>
    %1 = "stablehlo.reduce_window"(%cst, %cst_0) <{base_dilations = array<i64: 1, 1>, padding = dense<0> : tensor<2x2xi64>, window_dilations = array<i64: 1, 1>, window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 2>}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %4 = stablehlo.add %arg1, %arg2 : tensor<f32>
      stablehlo.return %4 : tensor<f32>
    }) : (tensor<6x8xf32>, tensor<f32>) -> tensor<3x4xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [2, 3] : (tensor<3x4xf32>) -> tensor<1x2x3x4xf32>
    %3 = stablehlo.divide %0, %2 : tensor<1x2x3x4xf32>
    return %3 : tensor<1x2x3x4xf32>
  }
}
