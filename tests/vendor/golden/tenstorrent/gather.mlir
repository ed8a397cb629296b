module @IrToHlo {
  func.func @main(%arg0: tensor<2x3xi64>, %arg1: tensor<2x8xf32>) -> tensor<2x3xf32> {
    %0 = stablehlo.composite "tenstorrent.gather" %arg1, %arg0 {composite_attributes = {dim = 1 : i64, sparse_grad = false}, decomposition = @tenstorrent.gather.impl} : (tensor<2x8xf32>, tensor<2x3xi64>) -> tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  }
  func.func private @tenstorrent.gather.impl(%arg0: tensor<2x8xf32>, %arg1: tensor<2x3xi64>) -> tensor<2x3xf32> {
    %0 = stablehlo.iota dim = 0 : tensor<2xui32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<2xui32>) -> tensor<2x3x1xui32>
    %2 = stablehlo.convert %arg1 : (tensor<2x3xi64>) -> tensor<2x3xui32>
    %3 = stablehlo.reshape %2 : (tensor<2x3xui32>) -> tensor<2x3x1xui32>
    %4 = stablehlo.concatenate %1, %3, dim = 2 : (tensor<2x3x1xui32>, tensor<2x3x1xui32>) -> tensor<2x3x2xui32>
    %5 = "stablehlo.gather"(%arg0, %4) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> : (tensor<2x8xf32>, tensor<2x3x2xui32>) -> tensor<2x3xf32>
    return %5 : tensor<2x3xf32>
  }
}
