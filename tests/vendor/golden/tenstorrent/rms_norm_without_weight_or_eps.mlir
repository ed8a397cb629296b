module @IrToHlo {
  func.func @main(%arg0: tensor<4x6xbf16>) -> tensor<4x6xbf16> {
    %0 = stablehlo.composite "tenstorrent.rms_norm" %arg0 {composite_attributes = {epsilon = 1.1920929E-7 : f32, normalized_shape = dense<6> : tensor<1xi64>}, decomposition = @tenstorrent.rms_norm.impl} : (tensor<4x6xbf16>) -> tensor<4x6xbf16>
    return %0 : tensor<4x6xbf16>
  }
  func.func private @tenstorrent.rms_norm.impl(%arg0: tensor<4x6xbf16>) -> tensor<4x6xbf16> {
    %cst = stablehlo.constant dense<1.1920929E-7> : tensor<4x1xf32>
    %cst_0 = stablehlo.constant dense<0.166666672> : tensor<4xf32>
    %cst_1 = stablehlo.constant dense<2.000000e+00> : tensor<4x6xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.convert %arg0 : (tensor<4x6xbf16>) -> tensor<4x6xf32>
    %1 = stablehlo.power %0, %cst_1 : tensor<4x6xf32>
    %2 = stablehlo.reduce(%1 init: %cst_2) applies stablehlo.add across dimensions = [1] : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>
    %3 = stablehlo.multiply %2, %cst_0 : tensor<4xf32>
    %4 = stablehlo.reshape %3 : (tensor<4xf32>) -> tensor<4x1xf32>
    %5 = stablehlo.add %4, %cst : tensor<4x1xf32>
    %6 = stablehlo.rsqrt %5 : tensor<4x1xf32>
    %7 = stablehlo.reshape %6 : (tensor<4x1xf32>) -> tensor<4xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0] : (tensor<4xf32>) -> tensor<4x6xf32>
    %9 = stablehlo.multiply %0, %8 : tensor<4x6xf32>
    %10 = stablehlo.convert %9 : (tensor<4x6xf32>) -> tensor<4x6xbf16>
    return %10 : tensor<4x6xbf16>
  }
}
