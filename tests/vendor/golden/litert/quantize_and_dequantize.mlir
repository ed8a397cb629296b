module @IrToHlo {
  func.func @main(%arg0: tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>, tensor<1x3xf32>) {
    %0:3 = stablehlo.composite "odml.quantize_and_dequantize" %arg0 {composite_attributes = {axis = 0 : i64, bits = 4 : i64}, decomposition = @odml.quantize_and_dequantize.impl} : (tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>, tensor<1x3xf32>)
    return %0#0, %0#1, %0#2 : tensor<4x3xf32>, tensor<4x3xf32>, tensor<1x3xf32>
  }
  func.func private @odml.quantize_and_dequantize.impl(%arg0: tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>, tensor<1x3xf32>) {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<1x3xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<1x3xf32>
    %cst_1 = stablehlo.constant dense<[1.000000e+00, 7.000000e+00]> : tensor<2xf32>
    %cst_2 = stablehlo.constant dense<-3.40282347E+38> : tensor<f32>
    %cst_3 = stablehlo.constant dense<[1.000000e+00, -8.000000e+00]> : tensor<2xf32>
    %0 = stablehlo.optimization_barrier %cst_3 : tensor<2xf32>
    %1 = stablehlo.slice %0 [1:2] : (tensor<2xf32>) -> tensor<1xf32>
    %2 = stablehlo.reshape %1 : (tensor<1xf32>) -> tensor<f32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<f32>) -> tensor<4x3xf32>
    %4 = stablehlo.abs %arg0 : tensor<4x3xf32>
    %5 = stablehlo.reduce(%4 init: %cst_2) applies stablehlo.maximum across dimensions = [0] : (tensor<4x3xf32>, tensor<f32>) -> tensor<3xf32>
    %6 = stablehlo.reshape %5 : (tensor<3xf32>) -> tensor<1x3xf32>
    %7 = stablehlo.optimization_barrier %cst_1 : tensor<2xf32>
    %8 = stablehlo.slice %7 [1:2] : (tensor<2xf32>) -> tensor<1xf32>
    %9 = stablehlo.reshape %8 : (tensor<1xf32>) -> tensor<f32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [] : (tensor<f32>) -> tensor<1x3xf32>
    %11 = stablehlo.divide %6, %10 : tensor<1x3xf32>
    %12 = stablehlo.compare EQ, %11, %cst_0 : (tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<1x3xi1>
    %13 = stablehlo.select %12, %cst, %11 : tensor<1x3xi1>, tensor<1x3xf32>
    %14 = stablehlo.reshape %13 : (tensor<1x3xf32>) -> tensor<3xf32>
    %15 = stablehlo.broadcast_in_dim %14, dims = [1] : (tensor<3xf32>) -> tensor<4x3xf32>
    %16 = stablehlo.divide %arg0, %15 : tensor<4x3xf32>
    %17 = stablehlo.round_nearest_even %16 : tensor<4x3xf32>
    %18 = stablehlo.broadcast_in_dim %9, dims = [] : (tensor<f32>) -> tensor<4x3xf32>
    %19 = stablehlo.clamp %3, %17, %18 : tensor<4x3xf32>
    %20 = stablehlo.multiply %19, %15 : tensor<4x3xf32>
    return %20, %19, %13 : tensor<4x3xf32>, tensor<4x3xf32>, tensor<1x3xf32>
  }
}
