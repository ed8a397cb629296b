module @IrToHlo {
  func.func @main(%arg0: tensor<32x32xi1>, %arg1: tensor<2x4x32x8xbf16>, %arg2: tensor<2x4x32x8xbf16>, %arg3: tensor<2x4x32x8xbf16>, %arg4: tensor<2x4x32x8xbf16>) -> (tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>) {
    %0 = stablehlo.convert %arg0 : (tensor<32x32xi1>) -> tensor<32x32xbf16>
    %1 = stablehlo.reshape %0 : (tensor<32x32xbf16>) -> tensor<1x1x32x32xbf16>
    %2:2 = stablehlo.composite "tenstorrent.sdpa_fw" %arg3, %arg2, %arg1, %1 {composite_attributes = {dropout_probability = 0.000000e+00 : f32, mask_type = 2 : i32}, decomposition = @tenstorrent.sdpa_fw.impl} : (tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<1x1x32x32xbf16>) -> (tensor<2x4x32x8xbf16>, tensor<2x4x32x32xf32>)
    %3:3 = stablehlo.composite "tenstorrent.sdpa_bw" %arg4, %2#0, %arg3, %arg2, %arg1, %2#1, %1 {composite_attributes = {dropout_probability = 0.000000e+00 : f32, mask_type = 2 : i32}, decomposition = @tenstorrent.sdpa_bw.impl} : (tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x4x32x32xf32>, tensor<1x1x32x32xbf16>) -> (tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>)
    return %2#0, %3#0, %3#1, %3#2 : tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>
  }
  func.func private @tenstorrent.sdpa_fw.impl(%arg0: tensor<2x4x32x8xbf16>, %arg1: tensor<2x4x32x8xbf16>, %arg2: tensor<2x4x32x8xbf16>, %arg3: tensor<1x1x32x32xbf16>) -> (tensor<2x4x32x8xbf16>, tensor<2x4x32x32xf32>) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<2x4x32x32xf32>
    %cst_0 = stablehlo.constant dense<0xFFF0000000000000> : tensor<2x4x32x32xf64>
    %cst_1 = stablehlo.constant dense<0xFF800000> : tensor<2x4x32x32xf32>
    %cst_2 = stablehlo.constant dense<2.82842708> : tensor<2x4x32x32xf32>
    %cst_3 = stablehlo.constant dense<-3.40282347E+38> : tensor<f32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<1x1x32x32xbf16>
    %0 = stablehlo.compare NE, %arg3, %cst_5 : (tensor<1x1x32x32xbf16>, tensor<1x1x32x32xbf16>) -> tensor<1x1x32x32xi1>
    %1 = stablehlo.reshape %0 : (tensor<1x1x32x32xi1>) -> tensor<32x32xi1>
    %2 = stablehlo.broadcast_in_dim %1, dims = [2, 3] : (tensor<32x32xi1>) -> tensor<2x4x32x32xi1>
    %3 = stablehlo.convert %arg0 : (tensor<2x4x32x8xbf16>) -> tensor<2x4x32x8xf32>
    %4 = stablehlo.reshape %3 : (tensor<2x4x32x8xf32>) -> tensor<8x32x8xf32>
    %5 = stablehlo.convert %arg1 : (tensor<2x4x32x8xbf16>) -> tensor<2x4x32x8xf32>
    %6 = stablehlo.transpose %5, dims = [0, 1, 3, 2] : (tensor<2x4x32x8xf32>) -> tensor<2x4x8x32xf32>
    %7 = stablehlo.reshape %6 : (tensor<2x4x8x32xf32>) -> tensor<8x8x32xf32>
    %8 = stablehlo.dot_general %4, %7, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x8xf32>, tensor<8x8x32xf32>) -> tensor<8x32x32xf32>
    %9 = stablehlo.reshape %8 : (tensor<8x32x32xf32>) -> tensor<2x4x32x32xf32>
    %10 = stablehlo.divide %9, %cst_2 : tensor<2x4x32x32xf32>
    %11 = stablehlo.select %2, %10, %cst_1 : tensor<2x4x32x32xi1>, tensor<2x4x32x32xf32>
    %12 = stablehlo.convert %11 : (tensor<2x4x32x32xf32>) -> tensor<2x4x32x32xf64>
    %13 = stablehlo.compare EQ, %12, %cst_0 : (tensor<2x4x32x32xf64>, tensor<2x4x32x32xf64>) -> tensor<2x4x32x32xi1>
    %14 = stablehlo.reduce(%11 init: %cst_3) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x32x32xf32>, tensor<f32>) -> tensor<2x4x32xf32>
    %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1, 2] : (tensor<2x4x32xf32>) -> tensor<2x4x32x32xf32>
    %16 = stablehlo.subtract %11, %15 : tensor<2x4x32x32xf32>
    %17 = stablehlo.exponential %16 : tensor<2x4x32x32xf32>
    %18 = stablehlo.reduce(%17 init: %cst_4) applies stablehlo.add across dimensions = [3] : (tensor<2x4x32x32xf32>, tensor<f32>) -> tensor<2x4x32xf32>
    %19 = stablehlo.reshape %18 : (tensor<2x4x32xf32>) -> tensor<2x4x32x1xf32>
    %20 = stablehlo.log %19 : tensor<2x4x32x1xf32>
    %21 = stablehlo.reshape %14 : (tensor<2x4x32xf32>) -> tensor<2x4x32x1xf32>
    %22 = stablehlo.add %20, %21 : tensor<2x4x32x1xf32>
    %23 = stablehlo.reshape %22 : (tensor<2x4x32x1xf32>) -> tensor<2x4x32xf32>
    %24 = stablehlo.broadcast_in_dim %23, dims = [0, 1, 2] : (tensor<2x4x32xf32>) -> tensor<2x4x32x32xf32>
    %25 = stablehlo.subtract %11, %24 : tensor<2x4x32x32xf32>
    %26 = stablehlo.exponential %25 : tensor<2x4x32x32xf32>
    %27 = stablehlo.select %13, %cst, %26 : tensor<2x4x32x32xi1>, tensor<2x4x32x32xf32>
    %28 = stablehlo.convert %27 : (tensor<2x4x32x32xf32>) -> tensor<2x4x32x32xbf16>
    %29 = stablehlo.reshape %28 : (tensor<2x4x32x32xbf16>) -> tensor<8x32x32xbf16>
    %30 = stablehlo.reshape %arg2 : (tensor<2x4x32x8xbf16>) -> tensor<8x32x8xbf16>
    %31 = stablehlo.dot_general %29, %30, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x32xbf16>, tensor<8x32x8xbf16>) -> tensor<8x32x8xbf16>
    %32 = stablehlo.reshape %31 : (tensor<8x32x8xbf16>) -> tensor<2x4x32x8xbf16>
    %33 = stablehlo.pad %22, %cst_4, low = [0, 0, 0, 0], high = [0, 0, 0, 31], interior = [0, 0, 0, 0] : (tensor<2x4x32x1xf32>, tensor<f32>) -> tensor<2x4x32x32xf32>
    return %32, %33 : tensor<2x4x32x8xbf16>, tensor<2x4x32x32xf32>
  }
  func.func private @tenstorrent.sdpa_bw.impl(%arg0: tensor<2x4x32x8xbf16>, %arg1: tensor<2x4x32x8xbf16>, %arg2: tensor<2x4x32x8xbf16>, %arg3: tensor<2x4x32x8xbf16>, %arg4: tensor<2x4x32x8xbf16>, %arg5: tensor<2x4x32x32xf32>, %arg6: tensor<1x1x32x32xbf16>) -> (tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<2x4x32x32xf32>
    %cst_0 = stablehlo.constant dense<0xFFF0000000000000> : tensor<2x4x32x32xf64>
    %cst_1 = stablehlo.constant dense<0xFF800000> : tensor<2x4x32x32xf32>
    %cst_2 = stablehlo.constant dense<2.82842708> : tensor<2x4x32x32xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<1x1x32x32xbf16>
    %0 = stablehlo.compare NE, %arg6, %cst_4 : (tensor<1x1x32x32xbf16>, tensor<1x1x32x32xbf16>) -> tensor<1x1x32x32xi1>
    %1 = stablehlo.reshape %0 : (tensor<1x1x32x32xi1>) -> tensor<32x32xi1>
    %2 = stablehlo.broadcast_in_dim %1, dims = [2, 3] : (tensor<32x32xi1>) -> tensor<2x4x32x32xi1>
    %3 = stablehlo.convert %arg2 : (tensor<2x4x32x8xbf16>) -> tensor<2x4x32x8xf32>
    %4 = stablehlo.reshape %3 : (tensor<2x4x32x8xf32>) -> tensor<8x32x8xf32>
    %5 = stablehlo.convert %arg3 : (tensor<2x4x32x8xbf16>) -> tensor<2x4x32x8xf32>
    %6 = stablehlo.transpose %5, dims = [0, 1, 3, 2] : (tensor<2x4x32x8xf32>) -> tensor<2x4x8x32xf32>
    %7 = stablehlo.reshape %6 : (tensor<2x4x8x32xf32>) -> tensor<8x8x32xf32>
    %8 = stablehlo.dot_general %4, %7, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x8xf32>, tensor<8x8x32xf32>) -> tensor<8x32x32xf32>
    %9 = stablehlo.reshape %8 : (tensor<8x32x32xf32>) -> tensor<2x4x32x32xf32>
    %10 = stablehlo.divide %9, %cst_2 : tensor<2x4x32x32xf32>
    %11 = stablehlo.select %2, %10, %cst_1 : tensor<2x4x32x32xi1>, tensor<2x4x32x32xf32>
    %12 = stablehlo.convert %11 : (tensor<2x4x32x32xf32>) -> tensor<2x4x32x32xf64>
    %13 = stablehlo.compare EQ, %12, %cst_0 : (tensor<2x4x32x32xf64>, tensor<2x4x32x32xf64>) -> tensor<2x4x32x32xi1>
    %14 = stablehlo.slice %arg5 [0:2, 0:4, 0:32, 0:1] : (tensor<2x4x32x32xf32>) -> tensor<2x4x32x1xf32>
    %15 = stablehlo.reshape %14 : (tensor<2x4x32x1xf32>) -> tensor<2x4x32xf32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<2x4x32xf32>) -> tensor<2x4x32x32xf32>
    %17 = stablehlo.subtract %11, %16 : tensor<2x4x32x32xf32>
    %18 = stablehlo.exponential %17 : tensor<2x4x32x32xf32>
    %19 = stablehlo.select %13, %cst, %18 : tensor<2x4x32x32xi1>, tensor<2x4x32x32xf32>
    %20 = stablehlo.convert %arg0 : (tensor<2x4x32x8xbf16>) -> tensor<2x4x32x8xf32>
    %21 = stablehlo.reshape %20 : (tensor<2x4x32x8xf32>) -> tensor<8x32x8xf32>
    %22 = stablehlo.convert %arg4 : (tensor<2x4x32x8xbf16>) -> tensor<2x4x32x8xf32>
    %23 = stablehlo.transpose %22, dims = [0, 1, 3, 2] : (tensor<2x4x32x8xf32>) -> tensor<2x4x8x32xf32>
    %24 = stablehlo.reshape %23 : (tensor<2x4x8x32xf32>) -> tensor<8x8x32xf32>
    %25 = stablehlo.dot_general %21, %24, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x8xf32>, tensor<8x8x32xf32>) -> tensor<8x32x32xf32>
    %26 = stablehlo.reshape %25 : (tensor<8x32x32xf32>) -> tensor<2x4x32x32xf32>
    %27 = stablehlo.convert %arg1 : (tensor<2x4x32x8xbf16>) -> tensor<2x4x32x8xf32>
    %28 = stablehlo.multiply %20, %27 : tensor<2x4x32x8xf32>
    %29 = stablehlo.reduce(%28 init: %cst_3) applies stablehlo.add across dimensions = [3] : (tensor<2x4x32x8xf32>, tensor<f32>) -> tensor<2x4x32xf32>
    %30 = stablehlo.broadcast_in_dim %29, dims = [0, 1, 2] : (tensor<2x4x32xf32>) -> tensor<2x4x32x32xf32>
    %31 = stablehlo.subtract %26, %30 : tensor<2x4x32x32xf32>
    %32 = stablehlo.multiply %19, %31 : tensor<2x4x32x32xf32>
    %33 = stablehlo.divide %32, %cst_2 : tensor<2x4x32x32xf32>
    %34 = stablehlo.reshape %33 : (tensor<2x4x32x32xf32>) -> tensor<8x32x32xf32>
    %35 = stablehlo.reshape %5 : (tensor<2x4x32x8xf32>) -> tensor<8x32x8xf32>
    %36 = stablehlo.dot_general %34, %35, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x32xf32>, tensor<8x32x8xf32>) -> tensor<8x32x8xf32>
    %37 = stablehlo.reshape %36 : (tensor<8x32x8xf32>) -> tensor<2x4x32x8xf32>
    %38 = stablehlo.convert %37 : (tensor<2x4x32x8xf32>) -> tensor<2x4x32x8xbf16>
    %39 = stablehlo.transpose %33, dims = [0, 1, 3, 2] : (tensor<2x4x32x32xf32>) -> tensor<2x4x32x32xf32>
    %40 = stablehlo.reshape %39 : (tensor<2x4x32x32xf32>) -> tensor<8x32x32xf32>
    %41 = stablehlo.dot_general %40, %4, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x32xf32>, tensor<8x32x8xf32>) -> tensor<8x32x8xf32>
    %42 = stablehlo.reshape %41 : (tensor<8x32x8xf32>) -> tensor<2x4x1x32x8xf32>
    %43 = stablehlo.reduce(%42 init: %cst_3) applies stablehlo.add across dimensions = [2] : (tensor<2x4x1x32x8xf32>, tensor<f32>) -> tensor<2x4x32x8xf32>
    %44 = stablehlo.convert %43 : (tensor<2x4x32x8xf32>) -> tensor<2x4x32x8xbf16>
    %45 = stablehlo.transpose %19, dims = [0, 1, 3, 2] : (tensor<2x4x32x32xf32>) -> tensor<2x4x32x32xf32>
    %46 = stablehlo.reshape %45 : (tensor<2x4x32x32xf32>) -> tensor<8x32x32xf32>
    %47 = stablehlo.dot_general %46, %21, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x32xf32>, tensor<8x32x8xf32>) -> tensor<8x32x8xf32>
    %48 = stablehlo.reshape %47 : (tensor<8x32x8xf32>) -> tensor<2x4x1x32x8xf32>
    %49 = stablehlo.reduce(%48 init: %cst_3) applies stablehlo.add across dimensions = [2] : (tensor<2x4x1x32x8xf32>, tensor<f32>) -> tensor<2x4x32x8xf32>
    %50 = stablehlo.convert %49 : (tensor<2x4x32x8xf32>) -> tensor<2x4x32x8xbf16>
    return %38, %44, %50 : tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>
  }
}
