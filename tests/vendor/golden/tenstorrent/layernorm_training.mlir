module @IrToHlo {
  func.func @main(%arg0: tensor<6xbf16>, %arg1: tensor<6xbf16>, %arg2: tensor<4x6xbf16>, %arg3: tensor<4x6xbf16>) -> (tensor<4x6xbf16>, tensor<4x6xbf16>, tensor<6xbf16>, tensor<6xbf16>) {
    %0 = stablehlo.reshape %arg2 : (tensor<4x6xbf16>) -> tensor<1x1x4x6xbf16>
    %1 = stablehlo.reshape %arg1 : (tensor<6xbf16>) -> tensor<1x1x1x6xbf16>
    %2 = stablehlo.reshape %arg0 : (tensor<6xbf16>) -> tensor<1x1x1x6xbf16>
    %3:3 = stablehlo.composite "tenstorrent.layernorm_fw" %0, %1, %2 {composite_attributes = {epsilon = 9.99999974E-6 : f32}, decomposition = @tenstorrent.layernorm_fw.impl} : (tensor<1x1x4x6xbf16>, tensor<1x1x1x6xbf16>, tensor<1x1x1x6xbf16>) -> (tensor<1x1x4x6xbf16>, tensor<1x1x4x1xbf16>, tensor<1x1x4x1xbf16>)
    %4 = stablehlo.reshape %3#0 : (tensor<1x1x4x6xbf16>) -> tensor<4x6xbf16>
    %5 = stablehlo.reshape %arg3 : (tensor<4x6xbf16>) -> tensor<1x1x4x6xbf16>
    %6:3 = stablehlo.composite "tenstorrent.layernorm_bw" %0, %1, %3#1, %3#2, %5 {decomposition = @tenstorrent.layernorm_bw.impl} : (tensor<1x1x4x6xbf16>, tensor<1x1x1x6xbf16>, tensor<1x1x4x1xbf16>, tensor<1x1x4x1xbf16>, tensor<1x1x4x6xbf16>) -> (tensor<1x1x4x6xbf16>, tensor<1x1x1x6xbf16>, tensor<1x1x1x6xbf16>)
    %7 = stablehlo.reshape %6#0 : (tensor<1x1x4x6xbf16>) -> tensor<4x6xbf16>
    %8 = stablehlo.reshape %6#1 : (tensor<1x1x1x6xbf16>) -> tensor<6xbf16>
    %9 = stablehlo.reshape %6#2 : (tensor<1x1x1x6xbf16>) -> tensor<6xbf16>
    return %4, %7, %8, %9 : tensor<4x6xbf16>, tensor<4x6xbf16>, tensor<6xbf16>, tensor<6xbf16>
  }
  func.func private @tenstorrent.layernorm_fw.impl(%arg0: tensor<1x1x4x6xbf16>, %arg1: tensor<1x1x1x6xbf16>, %arg2: tensor<1x1x1x6xbf16>) -> (tensor<1x1x4x6xbf16>, tensor<1x1x4x1xbf16>, tensor<1x1x4x1xbf16>) {
    %cst = stablehlo.constant dense<9.99999974E-6> : tensor<1x1x4x1xf32>
    %cst_0 = stablehlo.constant dense<2.000000e+00> : tensor<1x1x4x6xf32>
    %cst_1 = stablehlo.constant dense<0.166666672> : tensor<1x1x4xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.convert %arg0 : (tensor<1x1x4x6xbf16>) -> tensor<1x1x4x6xf32>
    %1 = stablehlo.reduce(%0 init: %cst_2) applies stablehlo.add across dimensions = [3] : (tensor<1x1x4x6xf32>, tensor<f32>) -> tensor<1x1x4xf32>
    %2 = stablehlo.multiply %1, %cst_1 : tensor<1x1x4xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1, 2] : (tensor<1x1x4xf32>) -> tensor<1x1x4x6xf32>
    %4 = stablehlo.subtract %0, %3 : tensor<1x1x4x6xf32>
    %5 = stablehlo.power %4, %cst_0 : tensor<1x1x4x6xf32>
    %6 = stablehlo.reduce(%5 init: %cst_2) applies stablehlo.add across dimensions = [3] : (tensor<1x1x4x6xf32>, tensor<f32>) -> tensor<1x1x4xf32>
    %7 = stablehlo.multiply %6, %cst_1 : tensor<1x1x4xf32>
    %8 = stablehlo.reshape %7 : (tensor<1x1x4xf32>) -> tensor<1x1x4x1xf32>
    %9 = stablehlo.add %8, %cst : tensor<1x1x4x1xf32>
    %10 = stablehlo.rsqrt %9 : tensor<1x1x4x1xf32>
    %11 = stablehlo.reshape %10 : (tensor<1x1x4x1xf32>) -> tensor<1x1x4xf32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [0, 1, 2] : (tensor<1x1x4xf32>) -> tensor<1x1x4x6xf32>
    %13 = stablehlo.multiply %4, %12 : tensor<1x1x4x6xf32>
    %14 = stablehlo.convert %arg1 : (tensor<1x1x1x6xbf16>) -> tensor<1x1x1x6xf32>
    %15 = stablehlo.reshape %14 : (tensor<1x1x1x6xf32>) -> tensor<1x1x6xf32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 3] : (tensor<1x1x6xf32>) -> tensor<1x1x4x6xf32>
    %17 = stablehlo.multiply %13, %16 : tensor<1x1x4x6xf32>
    %18 = stablehlo.convert %arg2 : (tensor<1x1x1x6xbf16>) -> tensor<1x1x1x6xf32>
    %19 = stablehlo.reshape %18 : (tensor<1x1x1x6xf32>) -> tensor<1x1x6xf32>
    %20 = stablehlo.broadcast_in_dim %19, dims = [0, 1, 3] : (tensor<1x1x6xf32>) -> tensor<1x1x4x6xf32>
    %21 = stablehlo.add %17, %20 : tensor<1x1x4x6xf32>
    %22 = stablehlo.convert %21 : (tensor<1x1x4x6xf32>) -> tensor<1x1x4x6xbf16>
    %23 = stablehlo.reshape %2 : (tensor<1x1x4xf32>) -> tensor<1x1x4x1xf32>
    %24 = stablehlo.convert %23 : (tensor<1x1x4x1xf32>) -> tensor<1x1x4x1xbf16>
    %25 = stablehlo.convert %10 : (tensor<1x1x4x1xf32>) -> tensor<1x1x4x1xbf16>
    return %22, %24, %25 : tensor<1x1x4x6xbf16>, tensor<1x1x4x1xbf16>, tensor<1x1x4x1xbf16>
  }
  func.func private @tenstorrent.layernorm_bw.impl(%arg0: tensor<1x1x4x6xbf16>, %arg1: tensor<1x1x1x6xbf16>, %arg2: tensor<1x1x4x1xbf16>, %arg3: tensor<1x1x4x1xbf16>, %arg4: tensor<1x1x4x6xbf16>) -> (tensor<1x1x4x6xbf16>, tensor<1x1x1x6xbf16>, tensor<1x1x1x6xbf16>) {
    %cst = stablehlo.constant dense<0.166666672> : tensor<1x1x4xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.convert %arg4 : (tensor<1x1x4x6xbf16>) -> tensor<1x1x4x6xf32>
    %1 = stablehlo.convert %arg1 : (tensor<1x1x1x6xbf16>) -> tensor<1x1x1x6xf32>
    %2 = stablehlo.reshape %1 : (tensor<1x1x1x6xf32>) -> tensor<1x1x6xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1, 3] : (tensor<1x1x6xf32>) -> tensor<1x1x4x6xf32>
    %4 = stablehlo.multiply %0, %3 : tensor<1x1x4x6xf32>
    %5 = stablehlo.reduce(%4 init: %cst_0) applies stablehlo.add across dimensions = [3] : (tensor<1x1x4x6xf32>, tensor<f32>) -> tensor<1x1x4xf32>
    %6 = stablehlo.multiply %5, %cst : tensor<1x1x4xf32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1, 2] : (tensor<1x1x4xf32>) -> tensor<1x1x4x6xf32>
    %8 = stablehlo.subtract %4, %7 : tensor<1x1x4x6xf32>
    %9 = stablehlo.convert %arg0 : (tensor<1x1x4x6xbf16>) -> tensor<1x1x4x6xf32>
    %10 = stablehlo.convert %arg2 : (tensor<1x1x4x1xbf16>) -> tensor<1x1x4x1xf32>
    %11 = stablehlo.reshape %10 : (tensor<1x1x4x1xf32>) -> tensor<1x1x4xf32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [0, 1, 2] : (tensor<1x1x4xf32>) -> tensor<1x1x4x6xf32>
    %13 = stablehlo.subtract %9, %12 : tensor<1x1x4x6xf32>
    %14 = stablehlo.convert %arg3 : (tensor<1x1x4x1xbf16>) -> tensor<1x1x4x1xf32>
    %15 = stablehlo.reshape %14 : (tensor<1x1x4x1xf32>) -> tensor<1x1x4xf32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<1x1x4xf32>) -> tensor<1x1x4x6xf32>
    %17 = stablehlo.multiply %13, %16 : tensor<1x1x4x6xf32>
    %18 = stablehlo.multiply %4, %17 : tensor<1x1x4x6xf32>
    %19 = stablehlo.reduce(%18 init: %cst_0) applies stablehlo.add across dimensions = [3] : (tensor<1x1x4x6xf32>, tensor<f32>) -> tensor<1x1x4xf32>
    %20 = stablehlo.multiply %19, %cst : tensor<1x1x4xf32>
    %21 = stablehlo.broadcast_in_dim %20, dims = [0, 1, 2] : (tensor<1x1x4xf32>) -> tensor<1x1x4x6xf32>
    %22 = stablehlo.multiply %17, %21 : tensor<1x1x4x6xf32>
    %23 = stablehlo.subtract %8, %22 : tensor<1x1x4x6xf32>
    %24 = stablehlo.multiply %23, %16 : tensor<1x1x4x6xf32>
    %25 = stablehlo.convert %24 : (tensor<1x1x4x6xf32>) -> tensor<1x1x4x6xbf16>
    %26 = stablehlo.multiply %0, %17 : tensor<1x1x4x6xf32>
    %27 = stablehlo.reduce(%26 init: %cst_0) applies stablehlo.add across dimensions = [2] : (tensor<1x1x4x6xf32>, tensor<f32>) -> tensor<1x1x6xf32>
    %28 = stablehlo.reshape %27 : (tensor<1x1x6xf32>) -> tensor<1x1x1x6xf32>
    %29 = stablehlo.convert %28 : (tensor<1x1x1x6xf32>) -> tensor<1x1x1x6xbf16>
    %30 = stablehlo.reduce(%0 init: %cst_0) applies stablehlo.add across dimensions = [2] : (tensor<1x1x4x6xf32>, tensor<f32>) -> tensor<1x1x6xf32>
    %31 = stablehlo.reshape %30 : (tensor<1x1x6xf32>) -> tensor<1x1x1x6xf32>
    %32 = stablehlo.convert %31 : (tensor<1x1x1x6xf32>) -> tensor<1x1x1x6xbf16>
    return %25, %29, %32 : tensor<1x1x4x6xbf16>, tensor<1x1x1x6xbf16>, tensor<1x1x1x6xbf16>
  }
}
