// CASE indices, of which some are outside and would be inside in 32 bits
// has tensor<30x1xi32>, tensor<30x3xf32>) -> tensor<8x3xf32>
func.func @main(%x: tensor<8x3xf32>, %i: tensor<30x1xi64>, %u: tensor<30x3xf32>)
    -> tensor<8x3xf32> {
  %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<
    update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
    index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.maximum %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<8x3xf32>, tensor<30x1xi64>, tensor<30x3xf32>) -> tensor<8x3xf32>
  return %0 : tensor<8x3xf32>
}

// CASE narrow indices, a dynamic size, and an operand with more rows than 32 bits count
// where $I is i32; $R is 8; $T is 8
// where $I is ui32; $R is 8; $T is 8
// where $I is i64; $R is ?; $T is 8
// where $I is i64; $R is 8; $T is 3000000000
// stays
func.func @main(%x: tensor<$Tx3xf32>, %i: tensor<$Rx1x$I>, %u: tensor<$Rx3xf32>)
    -> tensor<$Tx3xf32> {
  %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<
    update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
    index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.maximum %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<$Tx3xf32>, tensor<$Rx1x$I>, tensor<$Rx3xf32>) -> tensor<$Tx3xf32>
  return %0 : tensor<$Tx3xf32>
}
