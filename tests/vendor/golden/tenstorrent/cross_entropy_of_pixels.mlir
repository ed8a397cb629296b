module @IrToHlo {
  func.func @main(%arg0: tensor<2x2x2xi64>, %arg1: tensor<i64>, %arg2: tensor<2x6x2x2xf32>, %arg3: tensor<2x2x2xf32>) -> (tensor<2x2x2xf32>, tensor<2x6x2x2xf32>) {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<1x1x1x1xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<2x2x2xf32>
    %c = stablehlo.constant dense<0> : tensor<2x2x2xi64>
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<i64>) -> tensor<2x2x2xi64>
    %1 = stablehlo.compare NE, %arg0, %0 : (tensor<2x2x2xi64>, tensor<2x2x2xi64>) -> tensor<2x2x2xi1>
    %2 = stablehlo.transpose %arg2, dims = [0, 2, 3, 1] : (tensor<2x6x2x2xf32>) -> tensor<2x2x2x6xf32>
    %3 = stablehlo.reshape %2 : (tensor<2x2x2x6xf32>) -> tensor<1x1x8x6xf32>
    %4 = stablehlo.select %1, %arg0, %c : tensor<2x2x2xi1>, tensor<2x2x2xi64>
    %5 = stablehlo.convert %4 : (tensor<2x2x2xi64>) -> tensor<2x2x2xi32>
    %6 = stablehlo.reshape %5 : (tensor<2x2x2xi32>) -> tensor<1x8xi32>
    %7 = stablehlo.composite "tenstorrent.cross_entropy_fw" %3, %6 {decomposition = @tenstorrent.cross_entropy_fw.impl} : (tensor<1x1x8x6xf32>, tensor<1x8xi32>) -> tensor<1x1x8x1xf32>
    %8 = stablehlo.reshape %7 : (tensor<1x1x8x1xf32>) -> tensor<2x2x2xf32>
    %9 = stablehlo.select %1, %8, %cst_0 : tensor<2x2x2xi1>, tensor<2x2x2xf32>
    %10 = stablehlo.composite "tenstorrent.cross_entropy_bw" %3, %6, %cst {composite_attributes = {scaler = 1.000000e+00 : f32}, decomposition = @tenstorrent.cross_entropy_bw.impl} : (tensor<1x1x8x6xf32>, tensor<1x8xi32>, tensor<1x1x1x1xf32>) -> tensor<1x1x8x6xf32>
    %11 = stablehlo.select %1, %arg3, %cst_0 : tensor<2x2x2xi1>, tensor<2x2x2xf32>
    %12 = stablehlo.reshape %11 : (tensor<2x2x2xf32>) -> tensor<1x1x8xf32>
    %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<1x1x8x6xf32>
    %14 = stablehlo.multiply %10, %13 : tensor<1x1x8x6xf32>
    %15 = stablehlo.reshape %14 : (tensor<1x1x8x6xf32>) -> tensor<2x2x2x6xf32>
    %16 = stablehlo.transpose %15, dims = [0, 3, 1, 2] : (tensor<2x2x2x6xf32>) -> tensor<2x6x2x2xf32>
    return %9, %16 : tensor<2x2x2xf32>, tensor<2x6x2x2xf32>
  }
  func.func private @tenstorrent.cross_entropy_fw.impl(%arg0: tensor<1x1x8x6xf32>, %arg1: tensor<1x8xi32>) -> tensor<1x1x8x1xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<1x1x8x6xf32>
    %c = stablehlo.constant dense<[0, 1, 2, 3, 4, 5]> : tensor<6xi32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %cst_1 = stablehlo.constant dense<-3.40282347E+38> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst_1) applies stablehlo.maximum across dimensions = [3] : (tensor<1x1x8x6xf32>, tensor<f32>) -> tensor<1x1x8xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<1x1x8x6xf32>
    %2 = stablehlo.subtract %arg0, %1 : tensor<1x1x8x6xf32>
    %3 = stablehlo.exponential %2 : tensor<1x1x8x6xf32>
    %4 = stablehlo.reduce(%3 init: %cst_0) applies stablehlo.add across dimensions = [3] : (tensor<1x1x8x6xf32>, tensor<f32>) -> tensor<1x1x8xf32>
    %5 = stablehlo.reshape %4 : (tensor<1x1x8xf32>) -> tensor<1x1x8x1xf32>
    %6 = stablehlo.log %5 : tensor<1x1x8x1xf32>
    %7 = stablehlo.reshape %0 : (tensor<1x1x8xf32>) -> tensor<1x1x8x1xf32>
    %8 = stablehlo.add %6, %7 : tensor<1x1x8x1xf32>
    %9 = stablehlo.broadcast_in_dim %c, dims = [3] : (tensor<6xi32>) -> tensor<1x1x8x6xi32>
    %10 = stablehlo.reshape %arg1 : (tensor<1x8xi32>) -> tensor<1x1x8xi32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<1x1x8xi32>) -> tensor<1x1x8x6xi32>
    %12 = stablehlo.compare EQ, %9, %11 : (tensor<1x1x8x6xi32>, tensor<1x1x8x6xi32>) -> tensor<1x1x8x6xi1>
    %13 = stablehlo.select %12, %arg0, %cst : tensor<1x1x8x6xi1>, tensor<1x1x8x6xf32>
    %14 = stablehlo.reduce(%13 init: %cst_0) applies stablehlo.add across dimensions = [3] : (tensor<1x1x8x6xf32>, tensor<f32>) -> tensor<1x1x8xf32>
    %15 = stablehlo.reshape %14 : (tensor<1x1x8xf32>) -> tensor<1x1x8x1xf32>
    %16 = stablehlo.subtract %8, %15 : tensor<1x1x8x1xf32>
    return %16 : tensor<1x1x8x1xf32>
  }
  func.func private @tenstorrent.cross_entropy_bw.impl(%arg0: tensor<1x1x8x6xf32>, %arg1: tensor<1x8xi32>, %arg2: tensor<1x1x1x1xf32>) -> tensor<1x1x8x6xf32> {
    %c = stablehlo.constant dense<[0, 1, 2, 3, 4, 5]> : tensor<6xi32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %cst_0 = stablehlo.constant dense<-3.40282347E+38> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst_0) applies stablehlo.maximum across dimensions = [3] : (tensor<1x1x8x6xf32>, tensor<f32>) -> tensor<1x1x8xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<1x1x8x6xf32>
    %2 = stablehlo.subtract %arg0, %1 : tensor<1x1x8x6xf32>
    %3 = stablehlo.exponential %2 : tensor<1x1x8x6xf32>
    %4 = stablehlo.reduce(%3 init: %cst) applies stablehlo.add across dimensions = [3] : (tensor<1x1x8x6xf32>, tensor<f32>) -> tensor<1x1x8xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<1x1x8x6xf32>
    %6 = stablehlo.divide %3, %5 : tensor<1x1x8x6xf32>
    %7 = stablehlo.broadcast_in_dim %c, dims = [3] : (tensor<6xi32>) -> tensor<1x1x8x6xi32>
    %8 = stablehlo.reshape %arg1 : (tensor<1x8xi32>) -> tensor<1x1x8xi32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<1x1x8xi32>) -> tensor<1x1x8x6xi32>
    %10 = stablehlo.compare EQ, %7, %9 : (tensor<1x1x8x6xi32>, tensor<1x1x8x6xi32>) -> tensor<1x1x8x6xi1>
    %11 = stablehlo.convert %10 : (tensor<1x1x8x6xi1>) -> tensor<1x1x8x6xf32>
    %12 = stablehlo.subtract %6, %11 : tensor<1x1x8x6xf32>
    %13 = stablehlo.reshape %arg2 : (tensor<1x1x1x1xf32>) -> tensor<1x1xf32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x1x8x6xf32>
    %15 = stablehlo.multiply %12, %14 : tensor<1x1x8x6xf32>
    return %15 : tensor<1x1x8x6xf32>
  }
}
