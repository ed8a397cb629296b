module @IrToHlo {
  func.func @main(%arg0: tensor<i64>, %arg1: tensor<5xi64>, %arg2: tensor<5x6xf32>) -> (tensor<f32>, tensor<5x6xf32>) {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<1x1x1x1xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<5xf32>
    %c = stablehlo.constant dense<0> : tensor<5xi64>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %c_2 = stablehlo.constant dense<0> : tensor<i64>
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<i64>) -> tensor<5xi64>
    %1 = stablehlo.compare NE, %arg1, %0 : (tensor<5xi64>, tensor<5xi64>) -> tensor<5xi1>
    %2 = stablehlo.reshape %arg2 : (tensor<5x6xf32>) -> tensor<1x1x5x6xf32>
    %3 = stablehlo.select %1, %arg1, %c : tensor<5xi1>, tensor<5xi64>
    %4 = stablehlo.convert %3 : (tensor<5xi64>) -> tensor<5xi32>
    %5 = stablehlo.reshape %4 : (tensor<5xi32>) -> tensor<1x5xi32>
    %6 = stablehlo.composite "tenstorrent.cross_entropy_fw" %2, %5 {decomposition = @tenstorrent.cross_entropy_fw.impl} : (tensor<1x1x5x6xf32>, tensor<1x5xi32>) -> tensor<1x1x5x1xf32>
    %7 = stablehlo.reshape %6 : (tensor<1x1x5x1xf32>) -> tensor<5xf32>
    %8 = stablehlo.select %1, %7, %cst_0 : tensor<5xi1>, tensor<5xf32>
    %9 = stablehlo.reduce(%8 init: %cst_1) applies stablehlo.add across dimensions = [0] : (tensor<5xf32>, tensor<f32>) -> tensor<f32>
    %10 = stablehlo.convert %1 : (tensor<5xi1>) -> tensor<5xi64>
    %11 = stablehlo.reduce(%10 init: %c_2) applies stablehlo.add across dimensions = [0] : (tensor<5xi64>, tensor<i64>) -> tensor<i64>
    %12 = stablehlo.convert %11 : (tensor<i64>) -> tensor<f32>
    %13 = stablehlo.divide %9, %12 : tensor<f32>
    %14 = stablehlo.composite "tenstorrent.cross_entropy_bw" %2, %5, %cst {composite_attributes = {scaler = 1.000000e+00 : f32}, decomposition = @tenstorrent.cross_entropy_bw.impl} : (tensor<1x1x5x6xf32>, tensor<1x5xi32>, tensor<1x1x1x1xf32>) -> tensor<1x1x5x6xf32>
    %15 = stablehlo.divide %cst_1, %12 : tensor<f32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [] : (tensor<f32>) -> tensor<5xf32>
    %17 = stablehlo.select %1, %16, %cst_0 : tensor<5xi1>, tensor<5xf32>
    %18 = stablehlo.reshape %17 : (tensor<5xf32>) -> tensor<1x1x5xf32>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2] : (tensor<1x1x5xf32>) -> tensor<1x1x5x6xf32>
    %20 = stablehlo.multiply %14, %19 : tensor<1x1x5x6xf32>
    %21 = stablehlo.reshape %20 : (tensor<1x1x5x6xf32>) -> tensor<5x6xf32>
    return %13, %21 : tensor<f32>, tensor<5x6xf32>
  }
  func.func private @tenstorrent.cross_entropy_fw.impl(%arg0: tensor<1x1x5x6xf32>, %arg1: tensor<1x5xi32>) -> tensor<1x1x5x1xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<1x1x5x6xf32>
    %c = stablehlo.constant dense<[0, 1, 2, 3, 4, 5]> : tensor<6xi32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %cst_1 = stablehlo.constant dense<-3.40282347E+38> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst_1) applies stablehlo.maximum across dimensions = [3] : (tensor<1x1x5x6xf32>, tensor<f32>) -> tensor<1x1x5xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2] : (tensor<1x1x5xf32>) -> tensor<1x1x5x6xf32>
    %2 = stablehlo.subtract %arg0, %1 : tensor<1x1x5x6xf32>
    %3 = stablehlo.exponential %2 : tensor<1x1x5x6xf32>
    %4 = stablehlo.reduce(%3 init: %cst_0) applies stablehlo.add across dimensions = [3] : (tensor<1x1x5x6xf32>, tensor<f32>) -> tensor<1x1x5xf32>
    %5 = stablehlo.reshape %4 : (tensor<1x1x5xf32>) -> tensor<1x1x5x1xf32>
    %6 = stablehlo.log %5 : tensor<1x1x5x1xf32>
    %7 = stablehlo.reshape %0 : (tensor<1x1x5xf32>) -> tensor<1x1x5x1xf32>
    %8 = stablehlo.add %6, %7 : tensor<1x1x5x1xf32>
    %9 = stablehlo.broadcast_in_dim %c, dims = [3] : (tensor<6xi32>) -> tensor<1x1x5x6xi32>
    %10 = stablehlo.reshape %arg1 : (tensor<1x5xi32>) -> tensor<1x1x5xi32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<1x1x5xi32>) -> tensor<1x1x5x6xi32>
    %12 = stablehlo.compare EQ, %9, %11 : (tensor<1x1x5x6xi32>, tensor<1x1x5x6xi32>) -> tensor<1x1x5x6xi1>
    %13 = stablehlo.select %12, %arg0, %cst : tensor<1x1x5x6xi1>, tensor<1x1x5x6xf32>
    %14 = stablehlo.reduce(%13 init: %cst_0) applies stablehlo.add across dimensions = [3] : (tensor<1x1x5x6xf32>, tensor<f32>) -> tensor<1x1x5xf32>
    %15 = stablehlo.reshape %14 : (tensor<1x1x5xf32>) -> tensor<1x1x5x1xf32>
    %16 = stablehlo.subtract %8, %15 : tensor<1x1x5x1xf32>
    return %16 : tensor<1x1x5x1xf32>
  }
  func.func private @tenstorrent.cross_entropy_bw.impl(%arg0: tensor<1x1x5x6xf32>, %arg1: tensor<1x5xi32>, %arg2: tensor<1x1x1x1xf32>) -> tensor<1x1x5x6xf32> {
    %c = stablehlo.constant dense<[0, 1, 2, 3, 4, 5]> : tensor<6xi32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %cst_0 = stablehlo.constant dense<-3.40282347E+38> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst_0) applies stablehlo.maximum across dimensions = [3] : (tensor<1x1x5x6xf32>, tensor<f32>) -> tensor<1x1x5xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2] : (tensor<1x1x5xf32>) -> tensor<1x1x5x6xf32>
    %2 = stablehlo.subtract %arg0, %1 : tensor<1x1x5x6xf32>
    %3 = stablehlo.exponential %2 : tensor<1x1x5x6xf32>
    %4 = stablehlo.reduce(%3 init: %cst) applies stablehlo.add across dimensions = [3] : (tensor<1x1x5x6xf32>, tensor<f32>) -> tensor<1x1x5xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1, 2] : (tensor<1x1x5xf32>) -> tensor<1x1x5x6xf32>
    %6 = stablehlo.divide %3, %5 : tensor<1x1x5x6xf32>
    %7 = stablehlo.broadcast_in_dim %c, dims = [3] : (tensor<6xi32>) -> tensor<1x1x5x6xi32>
    %8 = stablehlo.reshape %arg1 : (tensor<1x5xi32>) -> tensor<1x1x5xi32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<1x1x5xi32>) -> tensor<1x1x5x6xi32>
    %10 = stablehlo.compare EQ, %7, %9 : (tensor<1x1x5x6xi32>, tensor<1x1x5x6xi32>) -> tensor<1x1x5x6xi1>
    %11 = stablehlo.convert %10 : (tensor<1x1x5x6xi1>) -> tensor<1x1x5x6xf32>
    %12 = stablehlo.subtract %6, %11 : tensor<1x1x5x6xf32>
    %13 = stablehlo.reshape %arg2 : (tensor<1x1x1x1xf32>) -> tensor<1x1xf32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x1x5x6xf32>
    %15 = stablehlo.multiply %12, %14 : tensor<1x1x5x6xf32>
    return %15 : tensor<1x1x5x6xf32>
  }
}
