module @IrToHlo {
  func.func @main(%arg0: tensor<5x3xf32>, %arg1: tensor<2x2xi64>) -> tensor<2x2x3xf32> {
    %0 = stablehlo.reshape %arg1 : (tensor<2x2xi64>) -> tensor<4xi64>
    %1 = stablehlo.convert %0 : (tensor<4xi64>) -> tensor<4xi32>
    %2 = stablehlo.composite "odml.embedding_lookup" %1, %arg0 {decomposition = @odml.embedding_lookup.impl} : (tensor<4xi32>, tensor<5x3xf32>) -> tensor<4x3xf32>
    %3 = stablehlo.reshape %2 : (tensor<4x3xf32>) -> tensor<2x2x3xf32>
    return %3 : tensor<2x2x3xf32>
  }
  func.func private @odml.embedding_lookup.impl(%arg0: tensor<4xi32>, %arg1: tensor<5x3xf32>) -> tensor<4x3xf32> {
    %0 = "stablehlo.gather"(%arg1, %arg0) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 3>}> : (tensor<5x3xf32>, tensor<4xi32>) -> tensor<4x3xf32>
    return %0 : tensor<4x3xf32>
  }
}
