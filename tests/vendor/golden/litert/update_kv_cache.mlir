module @IrToHlo {
  func.func @main(%arg0: tensor<1x2x2x3xf32>, %arg1: tensor<1x2x2x3xf32>, %arg2: tensor<2xi64>, %arg3: tensor<1x4x2x3xf32>, %arg4: tensor<1x4x2x3xf32>) -> (tensor<1x4x2x3xf32>, tensor<1x4x2x3xf32>) {
    %0:2 = stablehlo.composite "odml.update_kv_cache" %arg4, %arg3, %arg2, %arg1, %arg0 {composite_attributes = {kv_cache_max = 4 : i64}, decomposition = @odml.update_kv_cache.impl} : (tensor<1x4x2x3xf32>, tensor<1x4x2x3xf32>, tensor<2xi64>, tensor<1x2x2x3xf32>, tensor<1x2x2x3xf32>) -> (tensor<1x4x2x3xf32>, tensor<1x4x2x3xf32>)
    return %0#0, %0#1 : tensor<1x4x2x3xf32>, tensor<1x4x2x3xf32>
  }
  func.func private @odml.update_kv_cache.impl(%arg0: tensor<1x4x2x3xf32>, %arg1: tensor<1x4x2x3xf32>, %arg2: tensor<2xi64>, %arg3: tensor<1x2x2x3xf32>, %arg4: tensor<1x2x2x3xf32>) -> (tensor<1x4x2x3xf32>, tensor<1x4x2x3xf32>) {
    %0 = "stablehlo.scatter"(%arg0, %arg2, %arg3) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0, 2, 3], inserted_window_dims = [1], scatter_dims_to_operand_dims = [1], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg5: tensor<f32>, %arg6: tensor<f32>):
      stablehlo.return %arg6 : tensor<f32>
    }) : (tensor<1x4x2x3xf32>, tensor<2xi64>, tensor<1x2x2x3xf32>) -> tensor<1x4x2x3xf32>
    %1 = "stablehlo.scatter"(%arg1, %arg2, %arg4) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0, 2, 3], inserted_window_dims = [1], scatter_dims_to_operand_dims = [1], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg5: tensor<f32>, %arg6: tensor<f32>):
      stablehlo.return %arg6 : tensor<f32>
    }) : (tensor<1x4x2x3xf32>, tensor<2xi64>, tensor<1x2x2x3xf32>) -> tensor<1x4x2x3xf32>
    return %0, %1 : tensor<1x4x2x3xf32>, tensor<1x4x2x3xf32>
  }
}
