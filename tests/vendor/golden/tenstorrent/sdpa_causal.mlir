module @IrToHlo {
  func.func @main(%arg0: tensor<2x4x32x8xbf16>, %arg1: tensor<2x4x32x8xbf16>, %arg2: tensor<f32>, %arg3: tensor<2x4x32x8xbf16>, %arg4: tensor<2x4x32x8xbf16>) -> (tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>) {
    %0 = stablehlo.convert %arg3 : (tensor<2x4x32x8xbf16>) -> tensor<2x4x32x8xf32>
    %1 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<2x4x32x8xf32>
    %2 = stablehlo.multiply %0, %1 : tensor<2x4x32x8xf32>
    %3 = stablehlo.convert %2 : (tensor<2x4x32x8xf32>) -> tensor<2x4x32x8xbf16>
    %4:2 = stablehlo.composite "tenstorrent.sdpa_fw" %3, %arg1, %arg0 {composite_attributes = {dropout_probability = 0.000000e+00 : f32, mask_type = 1 : i32}, decomposition = @tenstorrent.sdpa_fw.impl} : (tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>) -> (tensor<2x4x32x8xbf16>, tensor<2x4x32x32xf32>)
    %5:3 = stablehlo.composite "tenstorrent.sdpa_bw" %arg4, %4#0, %3, %arg1, %arg0, %4#1 {composite_attributes = {dropout_probability = 0.000000e+00 : f32, mask_type = 1 : i32}, decomposition = @tenstorrent.sdpa_bw.impl} : (tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x4x32x32xf32>) -> (tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>)
    %6 = stablehlo.convert %5#0 : (tensor<2x4x32x8xbf16>) -> tensor<2x4x32x8xf32>
    %7 = stablehlo.multiply %6, %1 : tensor<2x4x32x8xf32>
    %8 = stablehlo.convert %7 : (tensor<2x4x32x8xf32>) -> tensor<2x4x32x8xbf16>
    return %4#0, %8, %5#1, %5#2 : tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>
  }
  func.func private @tenstorrent.sdpa_fw.impl(%arg0: tensor<2x4x32x8xbf16>, %arg1: tensor<2x4x32x8xbf16>, %arg2: tensor<2x4x32x8xbf16>) -> (tensor<2x4x32x8xbf16>, tensor<2x4x32x32xf32>) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<2x4x32x32xf32>
    %cst_0 = stablehlo.constant dense<0xFFF0000000000000> : tensor<2x4x32x32xf64>
    %cst_1 = stablehlo.constant dense<0xFF800000> : tensor<2x4x32x32xf32>
    %cst_2 = stablehlo.constant dense<2.82842708> : tensor<2x4x32x32xf32>
    %cst_3 = stablehlo.constant dense<-3.40282347E+38> : tensor<f32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %c = stablehlo.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31]> : tensor<32xi64>
    %0 = stablehlo.broadcast_in_dim %c, dims = [1] : (tensor<32xi64>) -> tensor<32x32xi64>
    %1 = stablehlo.broadcast_in_dim %c, dims = [0] : (tensor<32xi64>) -> tensor<32x32xi64>
    %2 = stablehlo.compare LE, %0, %1 : (tensor<32x32xi64>, tensor<32x32xi64>) -> tensor<32x32xi1>
    %3 = stablehlo.broadcast_in_dim %2, dims = [2, 3] : (tensor<32x32xi1>) -> tensor<2x4x32x32xi1>
    %4 = stablehlo.convert %arg0 : (tensor<2x4x32x8xbf16>) -> tensor<2x4x32x8xf32>
    %5 = stablehlo.reshape %4 : (tensor<2x4x32x8xf32>) -> tensor<8x32x8xf32>
    %6 = stablehlo.convert %arg1 : (tensor<2x4x32x8xbf16>) -> tensor<2x4x32x8xf32>
    %7 = stablehlo.transpose %6, dims = [0, 1, 3, 2] : (tensor<2x4x32x8xf32>) -> tensor<2x4x8x32xf32>
    %8 = stablehlo.reshape %7 : (tensor<2x4x8x32xf32>) -> tensor<8x8x32xf32>
    %9 = stablehlo.dot_general %5, %8, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x8xf32>, tensor<8x8x32xf32>) -> tensor<8x32x32xf32>
    %10 = stablehlo.reshape %9 : (tensor<8x32x32xf32>) -> tensor<2x4x32x32xf32>
    %11 = stablehlo.divide %10, %cst_2 : tensor<2x4x32x32xf32>
    %12 = stablehlo.select %3, %11, %cst_1 : tensor<2x4x32x32xi1>, tensor<2x4x32x32xf32>
    %13 = stablehlo.convert %12 : (tensor<2x4x32x32xf32>) -> tensor<2x4x32x32xf64>
    %14 = stablehlo.compare EQ, %13, %cst_0 : (tensor<2x4x32x32xf64>, tensor<2x4x32x32xf64>) -> tensor<2x4x32x32xi1>
    %15 = stablehlo.reduce(%12 init: %cst_3) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x32x32xf32>, tensor<f32>) -> tensor<2x4x32xf32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<2x4x32xf32>) -> tensor<2x4x32x32xf32>
    %17 = stablehlo.subtract %12, %16 : tensor<2x4x32x32xf32>
    %18 = stablehlo.exponential %17 : tensor<2x4x32x32xf32>
    %19 = stablehlo.reduce(%18 init: %cst_4) applies stablehlo.add across dimensions = [3] : (tensor<2x4x32x32xf32>, tensor<f32>) -> tensor<2x4x32xf32>
    %20 = stablehlo.reshape %19 : (tensor<2x4x32xf32>) -> tensor<2x4x32x1xf32>
    %21 = stablehlo.log %20 : tensor<2x4x32x1xf32>
    %22 = stablehlo.reshape %15 : (tensor<2x4x32xf32>) -> tensor<2x4x32x1xf32>
    %23 = stablehlo.add %21, %22 : tensor<2x4x32x1xf32>
    %24 = stablehlo.reshape %23 : (tensor<2x4x32x1xf32>) -> tensor<2x4x32xf32>
    %25 = stablehlo.broadcast_in_dim %24, dims = [0, 1, 2] : (tensor<2x4x32xf32>) -> tensor<2x4x32x32xf32>
    %26 = stablehlo.subtract %12, %25 : tensor<2x4x32x32xf32>
    %27 = stablehlo.exponential %26 : tensor<2x4x32x32xf32>
    %28 = stablehlo.select %14, %cst, %27 : tensor<2x4x32x32xi1>, tensor<2x4x32x32xf32>
    %29 = stablehlo.convert %28 : (tensor<2x4x32x32xf32>) -> tensor<2x4x32x32xbf16>
    %30 = stablehlo.reshape %29 : (tensor<2x4x32x32xbf16>) -> tensor<8x32x32xbf16>
    %31 = stablehlo.reshape %arg2 : (tensor<2x4x32x8xbf16>) -> tensor<8x32x8xbf16>
    %32 = stablehlo.dot_general %30, %31, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x32xbf16>, tensor<8x32x8xbf16>) -> tensor<8x32x8xbf16>
    %33 = stablehlo.reshape %32 : (tensor<8x32x8xbf16>) -> tensor<2x4x32x8xbf16>
    %34 = stablehlo.pad %23, %cst_4, low = [0, 0, 0, 0], high = [0, 0, 0, 31], interior = [0, 0, 0, 0] : (tensor<2x4x32x1xf32>, tensor<f32>) -> tensor<2x4x32x32xf32>
    return %33, %34 : tensor<2x4x32x8xbf16>, tensor<2x4x32x32xf32>
  }
  func.func private @tenstorrent.sdpa_bw.impl(%arg0: tensor<2x4x32x8xbf16>, %arg1: tensor<2x4x32x8xbf16>, %arg2: tensor<2x4x32x8xbf16>, %arg3: tensor<2x4x32x8xbf16>, %arg4: tensor<2x4x32x8xbf16>, %arg5: tensor<2x4x32x32xf32>) -> (tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<2x4x32x32xf32>
    %cst_0 = stablehlo.constant dense<0xFFF0000000000000> : tensor<2x4x32x32xf64>
    %cst_1 = stablehlo.constant dense<0xFF800000> : tensor<2x4x32x32xf32>
    %cst_2 = stablehlo.constant dense<2.82842708> : tensor<2x4x32x32xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %c = stablehlo.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31]> : tensor<32xi64>
    %0 = stablehlo.broadcast_in_dim %c, dims = [1] : (tensor<32xi64>) -> tensor<32x32xi64>
    %1 = stablehlo.broadcast_in_dim %c, dims = [0] : (tensor<32xi64>) -> tensor<32x32xi64>
    %2 = stablehlo.compare LE, %0, %1 : (tensor<32x32xi64>, tensor<32x32xi64>) -> tensor<32x32xi1>
    %3 = stablehlo.broadcast_in_dim %2, dims = [2, 3] : (tensor<32x32xi1>) -> tensor<2x4x32x32xi1>
    %4 = stablehlo.convert %arg2 : (tensor<2x4x32x8xbf16>) -> tensor<2x4x32x8xf32>
    %5 = stablehlo.reshape %4 : (tensor<2x4x32x8xf32>) -> tensor<8x32x8xf32>
    %6 = stablehlo.convert %arg3 : (tensor<2x4x32x8xbf16>) -> tensor<2x4x32x8xf32>
    %7 = stablehlo.transpose %6, dims = [0, 1, 3, 2] : (tensor<2x4x32x8xf32>) -> tensor<2x4x8x32xf32>
    %8 = stablehlo.reshape %7 : (tensor<2x4x8x32xf32>) -> tensor<8x8x32xf32>
    %9 = stablehlo.dot_general %5, %8, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x8xf32>, tensor<8x8x32xf32>) -> tensor<8x32x32xf32>
    %10 = stablehlo.reshape %9 : (tensor<8x32x32xf32>) -> tensor<2x4x32x32xf32>
    %11 = stablehlo.divide %10, %cst_2 : tensor<2x4x32x32xf32>
    %12 = stablehlo.select %3, %11, %cst_1 : tensor<2x4x32x32xi1>, tensor<2x4x32x32xf32>
    %13 = stablehlo.convert %12 : (tensor<2x4x32x32xf32>) -> tensor<2x4x32x32xf64>
    %14 = stablehlo.compare EQ, %13, %cst_0 : (tensor<2x4x32x32xf64>, tensor<2x4x32x32xf64>) -> tensor<2x4x32x32xi1>
    %15 = stablehlo.slice %arg5 [0:2, 0:4, 0:32, 0:1] : (tensor<2x4x32x32xf32>) -> tensor<2x4x32x1xf32>
    %16 = stablehlo.reshape %15 : (tensor<2x4x32x1xf32>) -> tensor<2x4x32xf32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [0, 1, 2] : (tensor<2x4x32xf32>) -> tensor<2x4x32x32xf32>
    %18 = stablehlo.subtract %12, %17 : tensor<2x4x32x32xf32>
    %19 = stablehlo.exponential %18 : tensor<2x4x32x32xf32>
    %20 = stablehlo.select %14, %cst, %19 : tensor<2x4x32x32xi1>, tensor<2x4x32x32xf32>
    %21 = stablehlo.convert %arg0 : (tensor<2x4x32x8xbf16>) -> tensor<2x4x32x8xf32>
    %22 = stablehlo.reshape %21 : (tensor<2x4x32x8xf32>) -> tensor<8x32x8xf32>
    %23 = stablehlo.convert %arg4 : (tensor<2x4x32x8xbf16>) -> tensor<2x4x32x8xf32>
    %24 = stablehlo.transpose %23, dims = [0, 1, 3, 2] : (tensor<2x4x32x8xf32>) -> tensor<2x4x8x32xf32>
    %25 = stablehlo.reshape %24 : (tensor<2x4x8x32xf32>) -> tensor<8x8x32xf32>
    %26 = stablehlo.dot_general %22, %25, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x8xf32>, tensor<8x8x32xf32>) -> tensor<8x32x32xf32>
    %27 = stablehlo.reshape %26 : (tensor<8x32x32xf32>) -> tensor<2x4x32x32xf32>
    %28 = stablehlo.convert %arg1 : (tensor<2x4x32x8xbf16>) -> tensor<2x4x32x8xf32>
    %29 = stablehlo.multiply %21, %28 : tensor<2x4x32x8xf32>
    %30 = stablehlo.reduce(%29 init: %cst_3) applies stablehlo.add across dimensions = [3] : (tensor<2x4x32x8xf32>, tensor<f32>) -> tensor<2x4x32xf32>
    %31 = stablehlo.broadcast_in_dim %30, dims = [0, 1, 2] : (tensor<2x4x32xf32>) -> tensor<2x4x32x32xf32>
    %32 = stablehlo.subtract %27, %31 : tensor<2x4x32x32xf32>
    %33 = stablehlo.multiply %20, %32 : tensor<2x4x32x32xf32>
    %34 = stablehlo.divide %33, %cst_2 : tensor<2x4x32x32xf32>
    %35 = stablehlo.reshape %34 : (tensor<2x4x32x32xf32>) -> tensor<8x32x32xf32>
    %36 = stablehlo.reshape %6 : (tensor<2x4x32x8xf32>) -> tensor<8x32x8xf32>
    %37 = stablehlo.dot_general %35, %36, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x32xf32>, tensor<8x32x8xf32>) -> tensor<8x32x8xf32>
    %38 = stablehlo.reshape %37 : (tensor<8x32x8xf32>) -> tensor<2x4x32x8xf32>
    %39 = stablehlo.convert %38 : (tensor<2x4x32x8xf32>) -> tensor<2x4x32x8xbf16>
    %40 = stablehlo.transpose %34, dims = [0, 1, 3, 2] : (tensor<2x4x32x32xf32>) -> tensor<2x4x32x32xf32>
    %41 = stablehlo.reshape %40 : (tensor<2x4x32x32xf32>) -> tensor<8x32x32xf32>
    %42 = stablehlo.dot_general %41, %5, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x32xf32>, tensor<8x32x8xf32>) -> tensor<8x32x8xf32>
    %43 = stablehlo.reshape %42 : (tensor<8x32x8xf32>) -> tensor<2x4x1x32x8xf32>
    %44 = stablehlo.reduce(%43 init: %cst_3) applies stablehlo.add across dimensions = [2] : (tensor<2x4x1x32x8xf32>, tensor<f32>) -> tensor<2x4x32x8xf32>
    %45 = stablehlo.convert %44 : (tensor<2x4x32x8xf32>) -> tensor<2x4x32x8xbf16>
    %46 = stablehlo.transpose %20, dims = [0, 1, 3, 2] : (tensor<2x4x32x32xf32>) -> tensor<2x4x32x32xf32>
    %47 = stablehlo.reshape %46 : (tensor<2x4x32x32xf32>) -> tensor<8x32x32xf32>
    %48 = stablehlo.dot_general %47, %22, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x32xf32>, tensor<8x32x8xf32>) -> tensor<8x32x8xf32>
    %49 = stablehlo.reshape %48 : (tensor<8x32x8xf32>) -> tensor<2x4x1x32x8xf32>
    %50 = stablehlo.reduce(%49 init: %cst_3) applies stablehlo.add across dimensions = [2] : (tensor<2x4x1x32x8xf32>, tensor<f32>) -> tensor<2x4x32x8xf32>
    %51 = stablehlo.convert %50 : (tensor<2x4x32x8xf32>) -> tensor<2x4x32x8xbf16>
    return %39, %45, %51 : tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>
  }
}
