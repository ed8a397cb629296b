module @IrToHlo {
  func.func @main(%arg0: tensor<2x2x32x8xbf16>, %arg1: tensor<2x2x32x8xbf16>, %arg2: tensor<2x4x32x8xbf16>) -> tensor<2x4x32x8xbf16> {
    %0 = stablehlo.composite "tenstorrent.scaled_dot_product_attention" %arg2, %arg1, %arg0 {composite_attributes = {is_causal = true, scale = 5.000000e-01 : f32}, decomposition = @tenstorrent.scaled_dot_product_attention.impl} : (tensor<2x4x32x8xbf16>, tensor<2x2x32x8xbf16>, tensor<2x2x32x8xbf16>) -> tensor<2x4x32x8xbf16>
    return %0 : tensor<2x4x32x8xbf16>
  }
  func.func private @tenstorrent.scaled_dot_product_attention.impl(%arg0: tensor<2x4x32x8xbf16>, %arg1: tensor<2x2x32x8xbf16>, %arg2: tensor<2x2x32x8xbf16>) -> tensor<2x4x32x8xbf16> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<2x4x32x32xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<2x4x32x32xf32>
    %cst_1 = stablehlo.constant dense<0xFF800000> : tensor<32x32xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<32x32xf32>
    %c = stablehlo.constant dense<false> : tensor<32x32xi1>
    %c_3 = stablehlo.constant dense<true> : tensor<32x32xi1>
    %cst_4 = stablehlo.constant dense<0.707106769> : tensor<2x4x8x32xf32>
    %cst_5 = stablehlo.constant dense<0.707106769> : tensor<2x4x32x8xf32>
    %cst_6 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %c_8 = stablehlo.constant dense<false> : tensor<i1>
    %c_9 = stablehlo.constant dense<true> : tensor<i1>
    %0 = stablehlo.convert %arg0 : (tensor<2x4x32x8xbf16>) -> tensor<2x4x32x8xf32>
    %1 = stablehlo.multiply %0, %cst_5 : tensor<2x4x32x8xf32>
    %2 = stablehlo.reshape %1 : (tensor<2x4x32x8xf32>) -> tensor<8x32x8xf32>
    %3 = stablehlo.convert %arg1 : (tensor<2x2x32x8xbf16>) -> tensor<2x2x32x8xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 3, 4] : (tensor<2x2x32x8xf32>) -> tensor<2x2x2x32x8xf32>
    %5 = stablehlo.reshape %4 : (tensor<2x2x2x32x8xf32>) -> tensor<2x4x32x8xf32>
    %6 = stablehlo.transpose %5, dims = [0, 1, 3, 2] : (tensor<2x4x32x8xf32>) -> tensor<2x4x8x32xf32>
    %7 = stablehlo.multiply %6, %cst_4 : tensor<2x4x8x32xf32>
    %8 = stablehlo.reshape %7 : (tensor<2x4x8x32xf32>) -> tensor<8x8x32xf32>
    %9 = stablehlo.dot_general %2, %8, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x8xf32>, tensor<8x8x32xf32>) -> tensor<8x32x32xf32>
    %10 = stablehlo.reshape %9 : (tensor<8x32x32xf32>) -> tensor<2x4x32x32xf32>
    %11 = stablehlo.iota dim = 0 : tensor<32xi32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [0] : (tensor<32xi32>) -> tensor<32x32xi32>
    %13 = stablehlo.broadcast_in_dim %11, dims = [1] : (tensor<32xi32>) -> tensor<32x32xi32>
    %14 = stablehlo.compare GE, %12, %13 : (tensor<32x32xi32>, tensor<32x32xi32>) -> tensor<32x32xi1>
    %15 = stablehlo.select %14, %c_3, %c : tensor<32x32xi1>, tensor<32x32xi1>
    %16 = stablehlo.select %15, %cst_2, %cst_1 : tensor<32x32xi1>, tensor<32x32xf32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [2, 3] : (tensor<32x32xf32>) -> tensor<2x4x32x32xf32>
    %18 = stablehlo.add %10, %17 : tensor<2x4x32x32xf32>
    %19 = stablehlo.compare EQ, %18, %cst_0 : (tensor<2x4x32x32xf32>, tensor<2x4x32x32xf32>) -> tensor<2x4x32x32xi1>
    %20 = stablehlo.reduce(%19 init: %c_9) across dimensions = [3] : (tensor<2x4x32x32xi1>, tensor<i1>) -> tensor<2x4x32xi1>
     reducer(%arg3: tensor<i1>, %arg4: tensor<i1>)  {
      %37 = stablehlo.and %arg3, %arg4 : tensor<i1>
      %38 = stablehlo.select %37, %c_9, %c_8 : tensor<i1>, tensor<i1>
      stablehlo.return %38 : tensor<i1>
    }
    %21 = stablehlo.broadcast_in_dim %20, dims = [0, 1, 2] : (tensor<2x4x32xi1>) -> tensor<2x4x32x32xi1>
    %22 = stablehlo.reduce(%18 init: %cst_6) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x32x32xf32>, tensor<f32>) -> tensor<2x4x32xf32>
    %23 = stablehlo.broadcast_in_dim %22, dims = [0, 1, 2] : (tensor<2x4x32xf32>) -> tensor<2x4x32x32xf32>
    %24 = stablehlo.subtract %18, %23 : tensor<2x4x32x32xf32>
    %25 = stablehlo.exponential %24 : tensor<2x4x32x32xf32>
    %26 = stablehlo.reduce(%25 init: %cst_7) applies stablehlo.add across dimensions = [3] : (tensor<2x4x32x32xf32>, tensor<f32>) -> tensor<2x4x32xf32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [0, 1, 2] : (tensor<2x4x32xf32>) -> tensor<2x4x32x32xf32>
    %28 = stablehlo.divide %25, %27 : tensor<2x4x32x32xf32>
    %29 = stablehlo.select %21, %cst, %28 : tensor<2x4x32x32xi1>, tensor<2x4x32x32xf32>
    %30 = stablehlo.reshape %29 : (tensor<2x4x32x32xf32>) -> tensor<8x32x32xf32>
    %31 = stablehlo.convert %arg2 : (tensor<2x2x32x8xbf16>) -> tensor<2x2x32x8xf32>
    %32 = stablehlo.broadcast_in_dim %31, dims = [0, 1, 3, 4] : (tensor<2x2x32x8xf32>) -> tensor<2x2x2x32x8xf32>
    %33 = stablehlo.reshape %32 : (tensor<2x2x2x32x8xf32>) -> tensor<8x32x8xf32>
    %34 = stablehlo.dot_general %30, %33, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x32xf32>, tensor<8x32x8xf32>) -> tensor<8x32x8xf32>
    %35 = stablehlo.reshape %34 : (tensor<8x32x8xf32>) -> tensor<2x4x32x8xf32>
    %36 = stablehlo.convert %35 : (tensor<2x4x32x8xf32>) -> tensor<2x4x32x8xbf16>
    return %36 : tensor<2x4x32x8xbf16>
  }
}
