module @IrToHlo {
  func.func @main(%arg0: tensor<2x1x1x32xbf16>, %arg1: tensor<2x4x32x8xbf16>, %arg2: tensor<2x4x32x8xbf16>, %arg3: tensor<2x4x32x8xbf16>, %arg4: tensor<2x4x32x8xbf16>) -> (tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x1x1x32xbf16>) {
    %0 = stablehlo.composite "tenstorrent.scaled_dot_product_attention" %arg3, %arg2, %arg1, %arg0 {composite_attributes = {is_causal = false, scale = 0.353553385 : f32}, decomposition = @tenstorrent.scaled_dot_product_attention.impl} : (tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x1x1x32xbf16>) -> tensor<2x4x32x8xbf16>
    %1:4 = stablehlo.composite "tenstorrent.scaled_dot_product_attention_backward" %arg4, %arg3, %arg2, %arg1, %arg0 {composite_attributes = {is_causal = false, output_mask = dense<true> : tensor<4xi1>, scale = 0.353553385 : f32}, decomposition = @tenstorrent.scaled_dot_product_attention_backward.impl, result_layout = [dense<[3, 2, 1, 0]> : tensor<4xindex>, dense<[2, 3, 1, 0]> : tensor<4xindex>, dense<[3, 2, 1, 0]> : tensor<4xindex>, dense<[3, 2, 1, 0]> : tensor<4xindex>]} : (tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x1x1x32xbf16>) -> (tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x1x1x32xbf16>)
    return %0, %1#0, %1#1, %1#2, %1#3 : tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x1x1x32xbf16>
  }
  func.func private @tenstorrent.scaled_dot_product_attention.impl(%arg0: tensor<2x4x32x8xbf16>, %arg1: tensor<2x4x32x8xbf16>, %arg2: tensor<2x4x32x8xbf16>, %arg3: tensor<2x1x1x32xbf16>) -> tensor<2x4x32x8xbf16> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<2x4x32x32xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<2x4x32x32xf32>
    %cst_1 = stablehlo.constant dense<0.594603539> : tensor<2x4x8x32xf32>
    %cst_2 = stablehlo.constant dense<0.594603539> : tensor<2x4x32x8xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %c = stablehlo.constant dense<false> : tensor<i1>
    %c_4 = stablehlo.constant dense<true> : tensor<i1>
    %cst_5 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.convert %arg0 : (tensor<2x4x32x8xbf16>) -> tensor<2x4x32x8xf32>
    %1 = stablehlo.multiply %0, %cst_2 : tensor<2x4x32x8xf32>
    %2 = stablehlo.reshape %1 : (tensor<2x4x32x8xf32>) -> tensor<8x32x8xf32>
    %3 = stablehlo.convert %arg1 : (tensor<2x4x32x8xbf16>) -> tensor<2x4x32x8xf32>
    %4 = stablehlo.transpose %3, dims = [0, 1, 3, 2] : (tensor<2x4x32x8xf32>) -> tensor<2x4x8x32xf32>
    %5 = stablehlo.multiply %4, %cst_1 : tensor<2x4x8x32xf32>
    %6 = stablehlo.reshape %5 : (tensor<2x4x8x32xf32>) -> tensor<8x8x32xf32>
    %7 = stablehlo.dot_general %2, %6, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x8xf32>, tensor<8x8x32xf32>) -> tensor<8x32x32xf32>
    %8 = stablehlo.reshape %7 : (tensor<8x32x32xf32>) -> tensor<2x4x32x32xf32>
    %9 = stablehlo.convert %arg3 : (tensor<2x1x1x32xbf16>) -> tensor<2x1x1x32xf32>
    %10 = stablehlo.reshape %9 : (tensor<2x1x1x32xf32>) -> tensor<2x32xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 3] : (tensor<2x32xf32>) -> tensor<2x4x32x32xf32>
    %12 = stablehlo.add %8, %11 : tensor<2x4x32x32xf32>
    %13 = stablehlo.compare EQ, %12, %cst_0 : (tensor<2x4x32x32xf32>, tensor<2x4x32x32xf32>) -> tensor<2x4x32x32xi1>
    %14 = stablehlo.reduce(%13 init: %c_4) across dimensions = [3] : (tensor<2x4x32x32xi1>, tensor<i1>) -> tensor<2x4x32xi1>
     reducer(%arg4: tensor<i1>, %arg5: tensor<i1>)  {
      %30 = stablehlo.and %arg4, %arg5 : tensor<i1>
      %31 = stablehlo.select %30, %c_4, %c : tensor<i1>, tensor<i1>
      stablehlo.return %31 : tensor<i1>
    }
    %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1, 2] : (tensor<2x4x32xi1>) -> tensor<2x4x32x32xi1>
    %16 = stablehlo.reduce(%12 init: %cst_5) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x32x32xf32>, tensor<f32>) -> tensor<2x4x32xf32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [0, 1, 2] : (tensor<2x4x32xf32>) -> tensor<2x4x32x32xf32>
    %18 = stablehlo.subtract %12, %17 : tensor<2x4x32x32xf32>
    %19 = stablehlo.exponential %18 : tensor<2x4x32x32xf32>
    %20 = stablehlo.reduce(%19 init: %cst_3) applies stablehlo.add across dimensions = [3] : (tensor<2x4x32x32xf32>, tensor<f32>) -> tensor<2x4x32xf32>
    %21 = stablehlo.broadcast_in_dim %20, dims = [0, 1, 2] : (tensor<2x4x32xf32>) -> tensor<2x4x32x32xf32>
    %22 = stablehlo.divide %19, %21 : tensor<2x4x32x32xf32>
    %23 = stablehlo.select %15, %cst, %22 : tensor<2x4x32x32xi1>, tensor<2x4x32x32xf32>
    %24 = stablehlo.reshape %23 : (tensor<2x4x32x32xf32>) -> tensor<8x32x32xf32>
    %25 = stablehlo.convert %arg2 : (tensor<2x4x32x8xbf16>) -> tensor<2x4x32x8xf32>
    %26 = stablehlo.reshape %25 : (tensor<2x4x32x8xf32>) -> tensor<8x32x8xf32>
    %27 = stablehlo.dot_general %24, %26, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x32xf32>, tensor<8x32x8xf32>) -> tensor<8x32x8xf32>
    %28 = stablehlo.reshape %27 : (tensor<8x32x8xf32>) -> tensor<2x4x32x8xf32>
    %29 = stablehlo.convert %28 : (tensor<2x4x32x8xf32>) -> tensor<2x4x32x8xbf16>
    return %29 : tensor<2x4x32x8xbf16>
  }
  func.func private @tenstorrent.scaled_dot_product_attention_backward.impl(%arg0: tensor<2x4x32x8xbf16>, %arg1: tensor<2x4x32x8xbf16>, %arg2: tensor<2x4x32x8xbf16>, %arg3: tensor<2x4x32x8xbf16>, %arg4: tensor<2x1x1x32xbf16>) -> (tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x1x1x32xbf16>) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<2x4x32x32xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<2x4x32x32xf32>
    %cst_1 = stablehlo.constant dense<0.594603539> : tensor<2x4x8x32xf32>
    %cst_2 = stablehlo.constant dense<0.594603539> : tensor<2x4x32x8xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %c = stablehlo.constant dense<false> : tensor<i1>
    %c_4 = stablehlo.constant dense<true> : tensor<i1>
    %cst_5 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.convert %arg1 : (tensor<2x4x32x8xbf16>) -> tensor<2x4x32x8xf32>
    %1 = stablehlo.multiply %0, %cst_2 : tensor<2x4x32x8xf32>
    %2 = stablehlo.reshape %1 : (tensor<2x4x32x8xf32>) -> tensor<8x32x8xf32>
    %3 = stablehlo.convert %arg2 : (tensor<2x4x32x8xbf16>) -> tensor<2x4x32x8xf32>
    %4 = stablehlo.transpose %3, dims = [0, 1, 3, 2] : (tensor<2x4x32x8xf32>) -> tensor<2x4x8x32xf32>
    %5 = stablehlo.multiply %4, %cst_1 : tensor<2x4x8x32xf32>
    %6 = stablehlo.reshape %5 : (tensor<2x4x8x32xf32>) -> tensor<8x8x32xf32>
    %7 = stablehlo.dot_general %2, %6, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x8xf32>, tensor<8x8x32xf32>) -> tensor<8x32x32xf32>
    %8 = stablehlo.reshape %7 : (tensor<8x32x32xf32>) -> tensor<2x4x32x32xf32>
    %9 = stablehlo.convert %arg4 : (tensor<2x1x1x32xbf16>) -> tensor<2x1x1x32xf32>
    %10 = stablehlo.reshape %9 : (tensor<2x1x1x32xf32>) -> tensor<2x32xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 3] : (tensor<2x32xf32>) -> tensor<2x4x32x32xf32>
    %12 = stablehlo.add %8, %11 : tensor<2x4x32x32xf32>
    %13 = stablehlo.compare EQ, %12, %cst_0 : (tensor<2x4x32x32xf32>, tensor<2x4x32x32xf32>) -> tensor<2x4x32x32xi1>
    %14 = stablehlo.reduce(%13 init: %c_4) across dimensions = [3] : (tensor<2x4x32x32xi1>, tensor<i1>) -> tensor<2x4x32xi1>
     reducer(%arg5: tensor<i1>, %arg6: tensor<i1>)  {
      %56 = stablehlo.and %arg5, %arg6 : tensor<i1>
      %57 = stablehlo.select %56, %c_4, %c : tensor<i1>, tensor<i1>
      stablehlo.return %57 : tensor<i1>
    }
    %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1, 2] : (tensor<2x4x32xi1>) -> tensor<2x4x32x32xi1>
    %16 = stablehlo.reduce(%12 init: %cst_5) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x32x32xf32>, tensor<f32>) -> tensor<2x4x32xf32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [0, 1, 2] : (tensor<2x4x32xf32>) -> tensor<2x4x32x32xf32>
    %18 = stablehlo.subtract %12, %17 : tensor<2x4x32x32xf32>
    %19 = stablehlo.exponential %18 : tensor<2x4x32x32xf32>
    %20 = stablehlo.reduce(%19 init: %cst_3) applies stablehlo.add across dimensions = [3] : (tensor<2x4x32x32xf32>, tensor<f32>) -> tensor<2x4x32xf32>
    %21 = stablehlo.broadcast_in_dim %20, dims = [0, 1, 2] : (tensor<2x4x32xf32>) -> tensor<2x4x32x32xf32>
    %22 = stablehlo.divide %19, %21 : tensor<2x4x32x32xf32>
    %23 = stablehlo.select %15, %cst, %22 : tensor<2x4x32x32xi1>, tensor<2x4x32x32xf32>
    %24 = stablehlo.convert %arg0 : (tensor<2x4x32x8xbf16>) -> tensor<2x4x32x8xf32>
    %25 = stablehlo.reshape %24 : (tensor<2x4x32x8xf32>) -> tensor<8x32x8xf32>
    %26 = stablehlo.convert %arg3 : (tensor<2x4x32x8xbf16>) -> tensor<2x4x32x8xf32>
    %27 = stablehlo.reshape %26 : (tensor<2x4x32x8xf32>) -> tensor<8x32x8xf32>
    %28 = stablehlo.transpose %27, dims = [0, 2, 1] : (tensor<8x32x8xf32>) -> tensor<8x8x32xf32>
    %29 = stablehlo.dot_general %25, %28, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x8xf32>, tensor<8x8x32xf32>) -> tensor<8x32x32xf32>
    %30 = stablehlo.reshape %29 : (tensor<8x32x32xf32>) -> tensor<2x4x32x32xf32>
    %31 = stablehlo.multiply %30, %23 : tensor<2x4x32x32xf32>
    %32 = stablehlo.reduce(%31 init: %cst_3) applies stablehlo.add across dimensions = [3] : (tensor<2x4x32x32xf32>, tensor<f32>) -> tensor<2x4x32xf32>
    %33 = stablehlo.broadcast_in_dim %32, dims = [0, 1, 2] : (tensor<2x4x32xf32>) -> tensor<2x4x32x32xf32>
    %34 = stablehlo.subtract %30, %33 : tensor<2x4x32x32xf32>
    %35 = stablehlo.multiply %23, %34 : tensor<2x4x32x32xf32>
    %36 = stablehlo.reshape %35 : (tensor<2x4x32x32xf32>) -> tensor<8x32x32xf32>
    %37 = stablehlo.transpose %6, dims = [0, 2, 1] : (tensor<8x8x32xf32>) -> tensor<8x32x8xf32>
    %38 = stablehlo.dot_general %36, %37, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x32xf32>, tensor<8x32x8xf32>) -> tensor<8x32x8xf32>
    %39 = stablehlo.reshape %38 : (tensor<8x32x8xf32>) -> tensor<2x4x32x8xf32>
    %40 = stablehlo.multiply %39, %cst_2 : tensor<2x4x32x8xf32>
    %41 = stablehlo.convert %40 : (tensor<2x4x32x8xf32>) -> tensor<2x4x32x8xbf16>
    %42 = stablehlo.transpose %2, dims = [0, 2, 1] : (tensor<8x32x8xf32>) -> tensor<8x8x32xf32>
    %43 = stablehlo.dot_general %42, %36, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x8x32xf32>, tensor<8x32x32xf32>) -> tensor<8x8x32xf32>
    %44 = stablehlo.reshape %43 : (tensor<8x8x32xf32>) -> tensor<2x4x8x32xf32>
    %45 = stablehlo.multiply %44, %cst_1 : tensor<2x4x8x32xf32>
    %46 = stablehlo.transpose %45, dims = [0, 1, 3, 2] : (tensor<2x4x8x32xf32>) -> tensor<2x4x32x8xf32>
    %47 = stablehlo.convert %46 : (tensor<2x4x32x8xf32>) -> tensor<2x4x32x8xbf16>
    %48 = stablehlo.reshape %23 : (tensor<2x4x32x32xf32>) -> tensor<8x32x32xf32>
    %49 = stablehlo.transpose %48, dims = [0, 2, 1] : (tensor<8x32x32xf32>) -> tensor<8x32x32xf32>
    %50 = stablehlo.dot_general %49, %25, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x32xf32>, tensor<8x32x8xf32>) -> tensor<8x32x8xf32>
    %51 = stablehlo.reshape %50 : (tensor<8x32x8xf32>) -> tensor<2x4x32x8xf32>
    %52 = stablehlo.convert %51 : (tensor<2x4x32x8xf32>) -> tensor<2x4x32x8xbf16>
    %53 = stablehlo.reduce(%35 init: %cst_3) applies stablehlo.add across dimensions = [1, 2] : (tensor<2x4x32x32xf32>, tensor<f32>) -> tensor<2x32xf32>
    %54 = stablehlo.reshape %53 : (tensor<2x32xf32>) -> tensor<2x1x1x32xf32>
    %55 = stablehlo.convert %54 : (tensor<2x1x1x32xf32>) -> tensor<2x1x1x32xbf16>
    return %41, %47, %52, %55 : tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x1x1x32xbf16>
  }
}
