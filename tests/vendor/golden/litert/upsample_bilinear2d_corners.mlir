module @IrToHlo {
  func.func @main(%arg0: tensor<1x2x3x4xf32>) -> tensor<1x2x5x7xf32> {
    %0 = stablehlo.composite "odml.upsample_bilinear2d" %arg0 {composite_attributes = {align_corners = true, is_nchw_op = true, size = dense<[5, 7]> : tensor<2xi64>}, decomposition = @odml.upsample_bilinear2d.impl, result_layout = dense<[1, 0, 2, 3]> : tensor<4xindex>, xla_shape = "f32[1,2,5,7]{1,0,2,3}"} : (tensor<1x2x3x4xf32>) -> tensor<1x2x5x7xf32>
    return %0 : tensor<1x2x5x7xf32>
  }
  func.func private @odml.upsample_bilinear2d.impl(%arg0: tensor<1x2x3x4xf32>) -> tensor<1x2x5x7xf32> {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<7xf32>
    %cst_0 = stablehlo.constant dense<5.000000e-01> : tensor<7xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<7xf32>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<7x3xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<7x3xf32>
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<5xf32>
    %cst_5 = stablehlo.constant dense<5.000000e-01> : tensor<5xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<5x3xf32>
    %cst_8 = stablehlo.constant dense<1.000000e+00> : tensor<5x3xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<5xf32>
    %0 = stablehlo.iota dim = 0 : tensor<5xf32>
    %1 = stablehlo.multiply %0, %cst_5 : tensor<5xf32>
    %2 = stablehlo.subtract %1, %cst_4 : tensor<5xf32>
    %3 = stablehlo.ceil %2 : tensor<5xf32>
    %4 = stablehlo.clamp %cst_9, %3, %cst_9 : tensor<5xf32>
    %5 = stablehlo.subtract %4, %1 : tensor<5xf32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<5xf32>) -> tensor<5x3xf32>
    %7 = stablehlo.iota dim = 0 : tensor<3xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [1] : (tensor<3xf32>) -> tensor<5x3xf32>
    %9 = stablehlo.add %6, %8 : tensor<5x3xf32>
    %10 = stablehlo.abs %9 : tensor<5x3xf32>
    %11 = stablehlo.subtract %cst_8, %10 : tensor<5x3xf32>
    %12 = stablehlo.maximum %11, %cst_7 : tensor<5x3xf32>
    %13 = stablehlo.reduce(%12 init: %cst_6) applies stablehlo.add across dimensions = [1] : (tensor<5x3xf32>, tensor<f32>) -> tensor<5xf32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0] : (tensor<5xf32>) -> tensor<5x3xf32>
    %15 = stablehlo.divide %12, %14 : tensor<5x3xf32>
    %16 = stablehlo.iota dim = 0 : tensor<7xf32>
    %17 = stablehlo.multiply %16, %cst_0 : tensor<7xf32>
    %18 = stablehlo.subtract %17, %cst : tensor<7xf32>
    %19 = stablehlo.ceil %18 : tensor<7xf32>
    %20 = stablehlo.clamp %cst_1, %19, %cst : tensor<7xf32>
    %21 = stablehlo.subtract %20, %17 : tensor<7xf32>
    %22 = stablehlo.broadcast_in_dim %21, dims = [0] : (tensor<7xf32>) -> tensor<7x3xf32>
    %23 = stablehlo.broadcast_in_dim %7, dims = [1] : (tensor<3xf32>) -> tensor<7x3xf32>
    %24 = stablehlo.add %22, %23 : tensor<7x3xf32>
    %25 = stablehlo.abs %24 : tensor<7x3xf32>
    %26 = stablehlo.subtract %cst_2, %25 : tensor<7x3xf32>
    %27 = stablehlo.maximum %26, %cst_3 : tensor<7x3xf32>
    %28 = stablehlo.reduce(%27 init: %cst_6) applies stablehlo.add across dimensions = [1] : (tensor<7x3xf32>, tensor<f32>) -> tensor<7xf32>
    %29 = stablehlo.broadcast_in_dim %28, dims = [0] : (tensor<7xf32>) -> tensor<7x3xf32>
    %30 = stablehlo.divide %27, %29 : tensor<7x3xf32>
    %31 = stablehlo.dot_general %15, %30, contracting_dims = [] x [], precision = [DEFAULT, DEFAULT] : (tensor<5x3xf32>, tensor<7x3xf32>) -> tensor<5x3x7x3xf32>
    %32 = stablehlo.transpose %arg0, dims = [0, 3, 2, 1] : (tensor<1x2x3x4xf32>) -> tensor<1x4x3x2xf32>
    %33 = stablehlo.broadcast_in_dim %20, dims = [0] : (tensor<7xf32>) -> tensor<7x5x1xf32>
    %34 = stablehlo.broadcast_in_dim %4, dims = [1] : (tensor<5xf32>) -> tensor<7x5x1xf32>
    %35 = stablehlo.concatenate %33, %34, dim = 2 : (tensor<7x5x1xf32>, tensor<7x5x1xf32>) -> tensor<7x5x2xf32>
    %36 = stablehlo.convert %35 : (tensor<7x5x2xf32>) -> tensor<7x5x2xi32>
    %37 = "stablehlo.gather"(%32, %36) <{dimension_numbers = #stablehlo.gather<offset_dims = [0, 1, 2, 3], start_index_map = [1, 2], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 3, 3, 2>}> : (tensor<1x4x3x2xf32>, tensor<7x5x2xi32>) -> tensor<1x3x3x2x7x5xf32>
    %38 = stablehlo.dot_general %31, %37, batching_dims = [2, 0] x [4, 5], contracting_dims = [3, 1] x [1, 2], precision = [DEFAULT, DEFAULT] : (tensor<5x3x7x3xf32>, tensor<1x3x3x2x7x5xf32>) -> tensor<7x5x1x2xf32>
    %39 = stablehlo.transpose %38, dims = [2, 3, 1, 0] : (tensor<7x5x1x2xf32>) -> tensor<1x2x5x7xf32>
    return %39 : tensor<1x2x5x7xf32>
  }
}
