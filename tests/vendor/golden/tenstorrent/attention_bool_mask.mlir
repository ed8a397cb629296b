module @IrToHlo {
  func.func @main(%arg0: tensor<f64>, %arg1: tensor<32x32xi1>, %arg2: tensor<2x4x32x8xbf16>, %arg3: tensor<2x4x32x8xbf16>, %arg4: tensor<2x4x32x8xbf16>) -> tensor<2x4x32x8xbf16> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<32x32xbf16>
    %0 = stablehlo.convert %arg0 : (tensor<f64>) -> tensor<bf16>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<bf16>) -> tensor<32x32xbf16>
    %2 = stablehlo.select %arg1, %cst, %1 : tensor<32x32xi1>, tensor<32x32xbf16>
    %3 = stablehlo.reshape %2 : (tensor<32x32xbf16>) -> tensor<1x1x32x32xbf16>
    %4 = stablehlo.composite "tenstorrent.scaled_dot_product_attention" %arg4, %arg3, %arg2, %3 {composite_attributes = {is_causal = false, scale = 0.353553385 : f32}, decomposition = @tenstorrent.scaled_dot_product_attention.impl} : (tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<1x1x32x32xbf16>) -> tensor<2x4x32x8xbf16>
    return %4 : tensor<2x4x32x8xbf16>
  }
  func.func private @tenstorrent.scaled_dot_product_attention.impl(%arg0: tensor<2x4x32x8xbf16>, %arg1: tensor<2x4x32x8xbf16>, %arg2: tensor<2x4x32x8xbf16>, %arg3: tensor<1x1x32x32xbf16>) -> tensor<2x4x32x8xbf16> {
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
    %9 = stablehlo.convert %arg3 : (tensor<1x1x32x32xbf16>) -> tensor<1x1x32x32xf32>
    %10 = stablehlo.reshape %9 : (tensor<1x1x32x32xf32>) -> tensor<32x32xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [2, 3] : (tensor<32x32xf32>) -> tensor<2x4x32x32xf32>
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
}
