module @IrToHlo {
  func.func @main(%arg0: tensor<1x2x5x4xf32>, %arg1: tensor<1x2x3x4xf32>) -> tensor<1x2x3x5xf32> {
    %0 = stablehlo.composite "tfl.bmm_4d_adj_y" %arg1, %arg0 {decomposition = @tfl.bmm_4d_adj_y.impl} : (tensor<1x2x3x4xf32>, tensor<1x2x5x4xf32>) -> tensor<1x2x3x5xf32>
    return %0 : tensor<1x2x3x5xf32>
  }
  func.func private @tfl.bmm_4d_adj_y.impl(%arg0: tensor<1x2x3x4xf32>, %arg1: tensor<1x2x5x4xf32>) -> tensor<1x2x3x5xf32> {
    %0 = stablehlo.reshape %arg0 : (tensor<1x2x3x4xf32>) -> tensor<2x3x4xf32>
    %1 = stablehlo.transpose %arg1, dims = [0, 1, 3, 2] : (tensor<1x2x5x4xf32>) -> tensor<1x2x4x5xf32>
    %2 = stablehlo.reshape %1 : (tensor<1x2x4x5xf32>) -> tensor<2x4x5xf32>
    %3 = stablehlo.dot_general %0, %2, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>
    %4 = stablehlo.reshape %3 : (tensor<2x3x5xf32>) -> tensor<1x2x3x5xf32>
    return %4 : tensor<1x2x3x5xf32>
  }
}
