module @IrToHlo {
  func.func @main(%arg0: tensor<1x2x3x4xf32>) -> tensor<1x2x6x12xf32> {
    %0 = stablehlo.composite "tfl.resize_nearest_neighbor" %arg0 {composite_attributes = {is_nchw_op = true, size = dense<[6, 12]> : tensor<2xi64>}, decomposition = @tfl.resize_nearest_neighbor.impl, result_layout = dense<[1, 0, 2, 3]> : tensor<4xindex>, xla_shape = "f32[1,2,6,12]{1,0,2,3}"} : (tensor<1x2x3x4xf32>) -> tensor<1x2x6x12xf32>
    return %0 : tensor<1x2x6x12xf32>
  }
  func.func private @tfl.resize_nearest_neighbor.impl(%arg0: tensor<1x2x3x4xf32>) -> tensor<1x2x6x12xf32> {
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<6xf32>
    %cst_0 = stablehlo.constant dense<5.000000e-01> : tensor<6xf32>
    %cst_1 = stablehlo.constant dense<3.000000e+00> : tensor<12xf32>
    %cst_2 = stablehlo.constant dense<0.333333343> : tensor<12xf32>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<12x1xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %cst_5 = stablehlo.constant dense<1.000000e+00> : tensor<6x1xf32>
    %0 = stablehlo.reduce(%cst_5 init: %cst_4) applies stablehlo.add across dimensions = [1] : (tensor<6x1xf32>, tensor<f32>) -> tensor<6xf32>
    %1 = stablehlo.reshape %0 : (tensor<6xf32>) -> tensor<6x1xf32>
    %2 = stablehlo.divide %cst_5, %1 : tensor<6x1xf32>
    %3 = stablehlo.reduce(%cst_3 init: %cst_4) applies stablehlo.add across dimensions = [1] : (tensor<12x1xf32>, tensor<f32>) -> tensor<12xf32>
    %4 = stablehlo.reshape %3 : (tensor<12xf32>) -> tensor<12x1xf32>
    %5 = stablehlo.divide %cst_3, %4 : tensor<12x1xf32>
    %6 = stablehlo.dot_general %2, %5, contracting_dims = [] x [], precision = [DEFAULT, DEFAULT] : (tensor<6x1xf32>, tensor<12x1xf32>) -> tensor<6x1x12x1xf32>
    %7 = stablehlo.transpose %arg0, dims = [0, 3, 2, 1] : (tensor<1x2x3x4xf32>) -> tensor<1x4x3x2xf32>
    %8 = stablehlo.iota dim = 0 : tensor<12xf32>
    %9 = stablehlo.multiply %8, %cst_2 : tensor<12xf32>
    %10 = stablehlo.floor %9 : tensor<12xf32>
    %11 = stablehlo.minimum %10, %cst_1 : tensor<12xf32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [0] : (tensor<12xf32>) -> tensor<12x6x1xf32>
    %13 = stablehlo.iota dim = 0 : tensor<6xf32>
    %14 = stablehlo.multiply %13, %cst_0 : tensor<6xf32>
    %15 = stablehlo.floor %14 : tensor<6xf32>
    %16 = stablehlo.minimum %15, %cst : tensor<6xf32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [1] : (tensor<6xf32>) -> tensor<12x6x1xf32>
    %18 = stablehlo.concatenate %12, %17, dim = 2 : (tensor<12x6x1xf32>, tensor<12x6x1xf32>) -> tensor<12x6x2xf32>
    %19 = stablehlo.convert %18 : (tensor<12x6x2xf32>) -> tensor<12x6x2xi32>
    %20 = "stablehlo.gather"(%7, %19) <{dimension_numbers = #stablehlo.gather<offset_dims = [0, 1, 2, 3], start_index_map = [1, 2], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1, 1, 2>}> : (tensor<1x4x3x2xf32>, tensor<12x6x2xi32>) -> tensor<1x1x1x2x12x6xf32>
    %21 = stablehlo.dot_general %6, %20, batching_dims = [2, 0] x [4, 5], contracting_dims = [3, 1] x [1, 2], precision = [DEFAULT, DEFAULT] : (tensor<6x1x12x1xf32>, tensor<1x1x1x2x12x6xf32>) -> tensor<12x6x1x2xf32>
    %22 = stablehlo.transpose %21, dims = [2, 3, 1, 0] : (tensor<12x6x1x2xf32>) -> tensor<1x2x6x12xf32>
    return %22 : tensor<1x2x6x12xf32>
  }
}
