module @IrToHlo {
  func.func @main(%arg0: tensor<3x8xf32>, %arg1: tensor<3x2xf32>) -> (tensor<3x2xf32>, tensor<3x2xi64>, tensor<3x8xf32>) {
    %0:2 = stablehlo.composite "chlo.top_k" %arg0 {composite_attributes = {k = 2 : i64}, decomposition = @chlo.top_k.impl, version = 1 : i32} : (tensor<3x8xf32>) -> (tensor<3x2xf32>, tensor<3x2xi32>)
    %1 = stablehlo.convert %0#1 : (tensor<3x2xi32>) -> tensor<3x2xi64>
    %2 = stablehlo.composite "chlo.top_k_backward" %arg1, %0#1, %arg0 {decomposition = @chlo.top_k_backward.impl, version = 1 : i32} : (tensor<3x2xf32>, tensor<3x2xi32>, tensor<3x8xf32>) -> tensor<3x8xf32>
    return %0#0, %1, %2 : tensor<3x2xf32>, tensor<3x2xi64>, tensor<3x8xf32>
  }
  func.func private @chlo.top_k.impl(%arg0: tensor<3x8xf32>) -> (tensor<3x2xf32>, tensor<3x2xi32>) {
    %0 = stablehlo.iota dim = 0 : tensor<8xi32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<8xi32>) -> tensor<3x8xi32>
    %2:2 = "stablehlo.sort"(%arg0, %1) <{dimension = 1 : i64, is_stable = false}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>, %arg3: tensor<i32>, %arg4: tensor<i32>):
      %5 = stablehlo.compare GT, %arg1, %arg2, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %5 : tensor<i1>
    }) : (tensor<3x8xf32>, tensor<3x8xi32>) -> (tensor<3x8xf32>, tensor<3x8xi32>)
    %3 = stablehlo.slice %2#0 [0:3, 0:2] : (tensor<3x8xf32>) -> tensor<3x2xf32>
    %4 = stablehlo.slice %2#1 [0:3, 0:2] : (tensor<3x8xi32>) -> tensor<3x2xi32>
    return %3, %4 : tensor<3x2xf32>, tensor<3x2xi32>
  }
  func.func private @chlo.top_k_backward.impl(%arg0: tensor<3x2xf32>, %arg1: tensor<3x2xi32>, %arg2: tensor<3x8xf32>) -> tensor<3x8xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<3x8xf32>
    %0 = stablehlo.iota dim = 0 : tensor<3xi64>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<3xi64>) -> tensor<3x2x1xi64>
    %2 = stablehlo.convert %arg1 : (tensor<3x2xi32>) -> tensor<3x2xi64>
    %3 = stablehlo.reshape %2 : (tensor<3x2xi64>) -> tensor<3x2x1xi64>
    %4 = stablehlo.concatenate %1, %3, dim = 2 : (tensor<3x2x1xi64>, tensor<3x2x1xi64>) -> tensor<3x2x2xi64>
    %5 = "stablehlo.scatter"(%cst, %4, %arg0) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 2>, unique_indices = false}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      stablehlo.return %arg4 : tensor<f32>
    }) : (tensor<3x8xf32>, tensor<3x2x2xi64>, tensor<3x2xf32>) -> tensor<3x8xf32>
    return %5 : tensor<3x8xf32>
  }
}
