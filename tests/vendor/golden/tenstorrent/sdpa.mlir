module @IrToHlo {
  func.func @main(%arg0: tensor<2x2x32x8xbf16>, %arg1: tensor<2x2x32x8xbf16>, %arg2: tensor<2x4x32x8xbf16>, %arg3: tensor<2x4x32x8xbf16>) -> (tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x2x32x8xbf16>, tensor<2x2x32x8xbf16>) {
    %0:2 = stablehlo.composite "tenstorrent.sdpa_fw" %arg2, %arg1, %arg0 {composite_attributes = {dropout_probability = 0.000000e+00 : f32, mask_type = 0 : i32}, decomposition = @tenstorrent.sdpa_fw.impl} : (tensor<2x4x32x8xbf16>, tensor<2x2x32x8xbf16>, tensor<2x2x32x8xbf16>) -> (tensor<2x4x32x8xbf16>, tensor<2x4x32x32xf32>)
    %1:3 = stablehlo.composite "tenstorrent.sdpa_bw" %arg3, %0#0, %arg2, %arg1, %arg0, %0#1 {composite_attributes = {dropout_probability = 0.000000e+00 : f32, mask_type = 0 : i32}, decomposition = @tenstorrent.sdpa_bw.impl} : (tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x2x32x8xbf16>, tensor<2x2x32x8xbf16>, tensor<2x4x32x32xf32>) -> (tensor<2x4x32x8xbf16>, tensor<2x2x32x8xbf16>, tensor<2x2x32x8xbf16>)
    return %0#0, %1#0, %1#1, %1#2 : tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x2x32x8xbf16>, tensor<2x2x32x8xbf16>
  }
  func.func private @tenstorrent.sdpa_fw.impl(%arg0: tensor<2x4x32x8xbf16>, %arg1: tensor<2x2x32x8xbf16>, %arg2: tensor<2x2x32x8xbf16>) -> (tensor<2x4x32x8xbf16>, tensor<2x4x32x32xf32>) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<2x4x32x32xf32>
    %cst_0 = stablehlo.constant dense<0xFFF0000000000000> : tensor<2x4x32x32xf64>
    %cst_1 = stablehlo.constant dense<2.82842708> : tensor<2x4x32x32xf32>
    %cst_2 = stablehlo.constant dense<-3.40282347E+38> : tensor<f32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.convert %arg0 : (tensor<2x4x32x8xbf16>) -> tensor<2x4x32x8xf32>
    %1 = stablehlo.reshape %0 : (tensor<2x4x32x8xf32>) -> tensor<8x32x8xf32>
    %2 = stablehlo.broadcast_in_dim %arg1, dims = [0, 1, 3, 4] : (tensor<2x2x32x8xbf16>) -> tensor<2x2x2x32x8xbf16>
    %3 = stablehlo.reshape %2 : (tensor<2x2x2x32x8xbf16>) -> tensor<2x4x32x8xbf16>
    %4 = stablehlo.convert %3 : (tensor<2x4x32x8xbf16>) -> tensor<2x4x32x8xf32>
    %5 = stablehlo.transpose %4, dims = [0, 1, 3, 2] : (tensor<2x4x32x8xf32>) -> tensor<2x4x8x32xf32>
    %6 = stablehlo.reshape %5 : (tensor<2x4x8x32xf32>) -> tensor<8x8x32xf32>
    %7 = stablehlo.dot_general %1, %6, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x8xf32>, tensor<8x8x32xf32>) -> tensor<8x32x32xf32>
    %8 = stablehlo.reshape %7 : (tensor<8x32x32xf32>) -> tensor<2x4x32x32xf32>
    %9 = stablehlo.divide %8, %cst_1 : tensor<2x4x32x32xf32>
    %10 = stablehlo.convert %9 : (tensor<2x4x32x32xf32>) -> tensor<2x4x32x32xf64>
    %11 = stablehlo.compare EQ, %10, %cst_0 : (tensor<2x4x32x32xf64>, tensor<2x4x32x32xf64>) -> tensor<2x4x32x32xi1>
    %12 = stablehlo.reduce(%9 init: %cst_2) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x32x32xf32>, tensor<f32>) -> tensor<2x4x32xf32>
    %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1, 2] : (tensor<2x4x32xf32>) -> tensor<2x4x32x32xf32>
    %14 = stablehlo.subtract %9, %13 : tensor<2x4x32x32xf32>
    %15 = stablehlo.exponential %14 : tensor<2x4x32x32xf32>
    %16 = stablehlo.reduce(%15 init: %cst_3) applies stablehlo.add across dimensions = [3] : (tensor<2x4x32x32xf32>, tensor<f32>) -> tensor<2x4x32xf32>
    %17 = stablehlo.reshape %16 : (tensor<2x4x32xf32>) -> tensor<2x4x32x1xf32>
    %18 = stablehlo.log %17 : tensor<2x4x32x1xf32>
    %19 = stablehlo.reshape %12 : (tensor<2x4x32xf32>) -> tensor<2x4x32x1xf32>
    %20 = stablehlo.add %18, %19 : tensor<2x4x32x1xf32>
    %21 = stablehlo.reshape %20 : (tensor<2x4x32x1xf32>) -> tensor<2x4x32xf32>
    %22 = stablehlo.broadcast_in_dim %21, dims = [0, 1, 2] : (tensor<2x4x32xf32>) -> tensor<2x4x32x32xf32>
    %23 = stablehlo.subtract %9, %22 : tensor<2x4x32x32xf32>
    %24 = stablehlo.exponential %23 : tensor<2x4x32x32xf32>
    %25 = stablehlo.select %11, %cst, %24 : tensor<2x4x32x32xi1>, tensor<2x4x32x32xf32>
    %26 = stablehlo.convert %25 : (tensor<2x4x32x32xf32>) -> tensor<2x4x32x32xbf16>
    %27 = stablehlo.reshape %26 : (tensor<2x4x32x32xbf16>) -> tensor<8x32x32xbf16>
    %28 = stablehlo.broadcast_in_dim %arg2, dims = [0, 1, 3, 4] : (tensor<2x2x32x8xbf16>) -> tensor<2x2x2x32x8xbf16>
    %29 = stablehlo.reshape %28 : (tensor<2x2x2x32x8xbf16>) -> tensor<8x32x8xbf16>
    %30 = stablehlo.dot_general %27, %29, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x32xbf16>, tensor<8x32x8xbf16>) -> tensor<8x32x8xbf16>
    %31 = stablehlo.reshape %30 : (tensor<8x32x8xbf16>) -> tensor<2x4x32x8xbf16>
    %32 = stablehlo.pad %20, %cst_3, low = [0, 0, 0, 0], high = [0, 0, 0, 31], interior = [0, 0, 0, 0] : (tensor<2x4x32x1xf32>, tensor<f32>) -> tensor<2x4x32x32xf32>
    return %31, %32 : tensor<2x4x32x8xbf16>, tensor<2x4x32x32xf32>
  }
  func.func private @tenstorrent.sdpa_bw.impl(%arg0: tensor<2x4x32x8xbf16>, %arg1: tensor<2x4x32x8xbf16>, %arg2: tensor<2x4x32x8xbf16>, %arg3: tensor<2x2x32x8xbf16>, %arg4: tensor<2x2x32x8xbf16>, %arg5: tensor<2x4x32x32xf32>) -> (tensor<2x4x32x8xbf16>, tensor<2x2x32x8xbf16>, tensor<2x2x32x8xbf16>) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<2x4x32x32xf32>
    %cst_0 = stablehlo.constant dense<0xFFF0000000000000> : tensor<2x4x32x32xf64>
    %cst_1 = stablehlo.constant dense<2.82842708> : tensor<2x4x32x32xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.convert %arg2 : (tensor<2x4x32x8xbf16>) -> tensor<2x4x32x8xf32>
    %1 = stablehlo.reshape %0 : (tensor<2x4x32x8xf32>) -> tensor<8x32x8xf32>
    %2 = stablehlo.broadcast_in_dim %arg3, dims = [0, 1, 3, 4] : (tensor<2x2x32x8xbf16>) -> tensor<2x2x2x32x8xbf16>
    %3 = stablehlo.reshape %2 : (tensor<2x2x2x32x8xbf16>) -> tensor<2x4x32x8xbf16>
    %4 = stablehlo.convert %3 : (tensor<2x4x32x8xbf16>) -> tensor<2x4x32x8xf32>
    %5 = stablehlo.transpose %4, dims = [0, 1, 3, 2] : (tensor<2x4x32x8xf32>) -> tensor<2x4x8x32xf32>
    %6 = stablehlo.reshape %5 : (tensor<2x4x8x32xf32>) -> tensor<8x8x32xf32>
    %7 = stablehlo.dot_general %1, %6, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x8xf32>, tensor<8x8x32xf32>) -> tensor<8x32x32xf32>
    %8 = stablehlo.reshape %7 : (tensor<8x32x32xf32>) -> tensor<2x4x32x32xf32>
    %9 = stablehlo.divide %8, %cst_1 : tensor<2x4x32x32xf32>
    %10 = stablehlo.convert %9 : (tensor<2x4x32x32xf32>) -> tensor<2x4x32x32xf64>
    %11 = stablehlo.compare EQ, %10, %cst_0 : (tensor<2x4x32x32xf64>, tensor<2x4x32x32xf64>) -> tensor<2x4x32x32xi1>
    %12 = stablehlo.slice %arg5 [0:2, 0:4, 0:32, 0:1] : (tensor<2x4x32x32xf32>) -> tensor<2x4x32x1xf32>
    %13 = stablehlo.reshape %12 : (tensor<2x4x32x1xf32>) -> tensor<2x4x32xf32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1, 2] : (tensor<2x4x32xf32>) -> tensor<2x4x32x32xf32>
    %15 = stablehlo.subtract %9, %14 : tensor<2x4x32x32xf32>
    %16 = stablehlo.exponential %15 : tensor<2x4x32x32xf32>
    %17 = stablehlo.select %11, %cst, %16 : tensor<2x4x32x32xi1>, tensor<2x4x32x32xf32>
    %18 = stablehlo.convert %arg0 : (tensor<2x4x32x8xbf16>) -> tensor<2x4x32x8xf32>
    %19 = stablehlo.reshape %18 : (tensor<2x4x32x8xf32>) -> tensor<8x32x8xf32>
    %20 = stablehlo.broadcast_in_dim %arg4, dims = [0, 1, 3, 4] : (tensor<2x2x32x8xbf16>) -> tensor<2x2x2x32x8xbf16>
    %21 = stablehlo.reshape %20 : (tensor<2x2x2x32x8xbf16>) -> tensor<2x4x32x8xbf16>
    %22 = stablehlo.convert %21 : (tensor<2x4x32x8xbf16>) -> tensor<2x4x32x8xf32>
    %23 = stablehlo.transpose %22, dims = [0, 1, 3, 2] : (tensor<2x4x32x8xf32>) -> tensor<2x4x8x32xf32>
    %24 = stablehlo.reshape %23 : (tensor<2x4x8x32xf32>) -> tensor<8x8x32xf32>
    %25 = stablehlo.dot_general %19, %24, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x8xf32>, tensor<8x8x32xf32>) -> tensor<8x32x32xf32>
    %26 = stablehlo.reshape %25 : (tensor<8x32x32xf32>) -> tensor<2x4x32x32xf32>
    %27 = stablehlo.convert %arg1 : (tensor<2x4x32x8xbf16>) -> tensor<2x4x32x8xf32>
    %28 = stablehlo.multiply %18, %27 : tensor<2x4x32x8xf32>
    %29 = stablehlo.reduce(%28 init: %cst_2) applies stablehlo.add across dimensions = [3] : (tensor<2x4x32x8xf32>, tensor<f32>) -> tensor<2x4x32xf32>
    %30 = stablehlo.broadcast_in_dim %29, dims = [0, 1, 2] : (tensor<2x4x32xf32>) -> tensor<2x4x32x32xf32>
    %31 = stablehlo.subtract %26, %30 : tensor<2x4x32x32xf32>
    %32 = stablehlo.multiply %17, %31 : tensor<2x4x32x32xf32>
    %33 = stablehlo.divide %32, %cst_1 : tensor<2x4x32x32xf32>
    %34 = stablehlo.reshape %33 : (tensor<2x4x32x32xf32>) -> tensor<8x32x32xf32>
    %35 = stablehlo.reshape %4 : (tensor<2x4x32x8xf32>) -> tensor<8x32x8xf32>
    %36 = stablehlo.dot_general %34, %35, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x32xf32>, tensor<8x32x8xf32>) -> tensor<8x32x8xf32>
    %37 = stablehlo.reshape %36 : (tensor<8x32x8xf32>) -> tensor<2x4x32x8xf32>
    %38 = stablehlo.convert %37 : (tensor<2x4x32x8xf32>) -> tensor<2x4x32x8xbf16>
    %39 = stablehlo.transpose %33, dims = [0, 1, 3, 2] : (tensor<2x4x32x32xf32>) -> tensor<2x4x32x32xf32>
    %40 = stablehlo.reshape %39 : (tensor<2x4x32x32xf32>) -> tensor<8x32x32xf32>
    %41 = stablehlo.dot_general %40, %1, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x32xf32>, tensor<8x32x8xf32>) -> tensor<8x32x8xf32>
    %42 = stablehlo.reshape %41 : (tensor<8x32x8xf32>) -> tensor<2x2x2x32x8xf32>
    %43 = stablehlo.reduce(%42 init: %cst_2) applies stablehlo.add across dimensions = [2] : (tensor<2x2x2x32x8xf32>, tensor<f32>) -> tensor<2x2x32x8xf32>
    %44 = stablehlo.convert %43 : (tensor<2x2x32x8xf32>) -> tensor<2x2x32x8xbf16>
    %45 = stablehlo.transpose %17, dims = [0, 1, 3, 2] : (tensor<2x4x32x32xf32>) -> tensor<2x4x32x32xf32>
    %46 = stablehlo.reshape %45 : (tensor<2x4x32x32xf32>) -> tensor<8x32x32xf32>
    %47 = stablehlo.dot_general %46, %19, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x32xf32>, tensor<8x32x8xf32>) -> tensor<8x32x8xf32>
    %48 = stablehlo.reshape %47 : (tensor<8x32x8xf32>) -> tensor<2x2x2x32x8xf32>
    %49 = stablehlo.reduce(%48 init: %cst_2) applies stablehlo.add across dimensions = [2] : (tensor<2x2x2x32x8xf32>, tensor<f32>) -> tensor<2x2x32x8xf32>
    %50 = stablehlo.convert %49 : (tensor<2x2x32x8xf32>) -> tensor<2x2x32x8xbf16>
    return %38, %44, %50 : tensor<2x4x32x8xbf16>, tensor<2x2x32x8xbf16>, tensor<2x2x32x8xbf16>
  }
}
