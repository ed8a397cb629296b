module @IrToHlo {
  func.func @main(%arg0: tensor<6xf32>, %arg1: tensor<4x6xf32>) -> tensor<4x6xf32> {
    %0 = stablehlo.composite "tenstorrent.rms_norm" %arg1, %arg0 {composite_attributes = {epsilon = 9.99999997E-7 : f32, normalized_shape = dense<6> : tensor<1xi64>}, decomposition = @tenstorrent.rms_norm.impl} : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
    return %0 : tensor<4x6xf32>
  }
  func.func private @tenstorrent.rms_norm.impl(%arg0: tensor<4x6xf32>, %arg1: tensor<6xf32>) -> tensor<4x6xf32> {
    %cst = stablehlo.constant dense<9.99999997E-7> : tensor<4x1xf32>
    %cst_0 = stablehlo.constant dense<0.166666672> : tensor<4xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %cst_2 = stablehlo.constant dense<2.000000e+00> : tensor<4x6xf32>
    %0 = stablehlo.power %arg0, %cst_2 : tensor<4x6xf32>
    %1 = stablehlo.reduce(%0 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>
    %2 = stablehlo.multiply %1, %cst_0 : tensor<4xf32>
    %3 = stablehlo.reshape %2 : (tensor<4xf32>) -> tensor<4x1xf32>
    %4 = stablehlo.add %3, %cst : tensor<4x1xf32>
    %5 = stablehlo.rsqrt %4 : tensor<4x1xf32>
    %6 = stablehlo.reshape %5 : (tensor<4x1xf32>) -> tensor<4xf32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [0] : (tensor<4xf32>) -> tensor<4x6xf32>
    %8 = stablehlo.multiply %arg0, %7 : tensor<4x6xf32>
    %9 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<6xf32>) -> tensor<4x6xf32>
    %10 = stablehlo.multiply %8, %9 : tensor<4x6xf32>
    return %10 : tensor<4x6xf32>
  }
}
