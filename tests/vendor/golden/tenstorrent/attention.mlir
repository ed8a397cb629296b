module @IrToHlo {
  func.func @main(%arg0: tensor<2x4x32x8xbf16>, %arg1: tensor<2x4x32x8xbf16>, %arg2: tensor<2x4x32x8xbf16>) -> tensor<2x4x32x8xbf16> {
    %0 = stablehlo.composite "tenstorrent.scaled_dot_product_attention" %arg2, %arg1, %arg0 {composite_attributes = {is_causal = false, scale = 0.353553385 : f32}, decomposition = @tenstorrent.scaled_dot_product_attention.impl} : (tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>) -> tensor<2x4x32x8xbf16>
    return %0 : tensor<2x4x32x8xbf16>
  }
  func.func private @tenstorrent.scaled_dot_product_attention.impl(%arg0: tensor<2x4x32x8xbf16>, %arg1: tensor<2x4x32x8xbf16>, %arg2: tensor<2x4x32x8xbf16>) -> tensor<2x4x32x8xbf16> {
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
    %9 = stablehlo.compare EQ, %8, %cst_0 : (tensor<2x4x32x32xf32>, tensor<2x4x32x32xf32>) -> tensor<2x4x32x32xi1>
    %10 = stablehlo.reduce(%9 init: %c_4) across dimensions = [3] : (tensor<2x4x32x32xi1>, tensor<i1>) -> tensor<2x4x32xi1>
     reducer(%arg3: tensor<i1>, %arg4: tensor<i1>)  {
      %26 = stablehlo.and %arg3, %arg4 : tensor<i1>
      %27 = stablehlo.select %26, %c_4, %c : tensor<i1>, tensor<i1>
      stablehlo.return %27 : tensor<i1>
    }
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<2x4x32xi1>) -> tensor<2x4x32x32xi1>
    %12 = stablehlo.reduce(%8 init: %cst_5) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x32x32xf32>, tensor<f32>) -> tensor<2x4x32xf32>
    %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1, 2] : (tensor<2x4x32xf32>) -> tensor<2x4x32x32xf32>
    %14 = stablehlo.subtract %8, %13 : tensor<2x4x32x32xf32>
    %15 = stablehlo.exponential %14 : tensor<2x4x32x32xf32>
    %16 = stablehlo.reduce(%15 init: %cst_3) applies stablehlo.add across dimensions = [3] : (tensor<2x4x32x32xf32>, tensor<f32>) -> tensor<2x4x32xf32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [0, 1, 2] : (tensor<2x4x32xf32>) -> tensor<2x4x32x32xf32>
    %18 = stablehlo.divide %15, %17 : tensor<2x4x32x32xf32>
    %19 = stablehlo.select %11, %cst, %18 : tensor<2x4x32x32xi1>, tensor<2x4x32x32xf32>
    %20 = stablehlo.reshape %19 : (tensor<2x4x32x32xf32>) -> tensor<8x32x32xf32>
    %21 = stablehlo.convert %arg2 : (tensor<2x4x32x8xbf16>) -> tensor<2x4x32x8xf32>
    %22 = stablehlo.reshape %21 : (tensor<2x4x32x8xf32>) -> tensor<8x32x8xf32>
    %23 = stablehlo.dot_general %20, %22, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x32xf32>, tensor<8x32x8xf32>) -> tensor<8x32x8xf32>
    %24 = stablehlo.reshape %23 : (tensor<8x32x8xf32>) -> tensor<2x4x32x8xf32>
    %25 = stablehlo.convert %24 : (tensor<2x4x32x8xf32>) -> tensor<2x4x32x8xbf16>
    return %25 : tensor<2x4x32x8xbf16>
  }
}
