module @IrToHlo {
  func.func @main(%arg0: tensor<2x1x1x7xf32>, %arg1: tensor<2x4x7x8xf32>, %arg2: tensor<2x4x7x8xf32>, %arg3: tensor<2x4x5x8xf32>) -> tensor<2x4x5x8xf32> {
    %0 = stablehlo.transpose %arg3, dims = [0, 2, 1, 3] : (tensor<2x4x5x8xf32>) -> tensor<2x5x4x8xf32>
    %1 = stablehlo.transpose %arg2, dims = [0, 2, 1, 3] : (tensor<2x4x7x8xf32>) -> tensor<2x7x4x8xf32>
    %2 = stablehlo.transpose %arg1, dims = [0, 2, 1, 3] : (tensor<2x4x7x8xf32>) -> tensor<2x7x4x8xf32>
    %3 = stablehlo.reshape %arg0 : (tensor<2x1x1x7xf32>) -> tensor<2x1x7xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 3] : (tensor<2x1x7xf32>) -> tensor<2x1x5x7xf32>
    %5 = stablehlo.composite "odml.scaled_dot_product_attention" %0, %1, %2, %4 {composite_attributes = {scale = 0.353553385 : f32}, decomposition = @odml.scaled_dot_product_attention.impl, result_layout = dense<[3, 1, 2, 0]> : tensor<4xindex>, xla_shape = "f32[2,5,4,8]{3,1,2,0}"} : (tensor<2x5x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x7x4x8xf32>, tensor<2x1x5x7xf32>) -> tensor<2x5x4x8xf32>
    %6 = stablehlo.transpose %5, dims = [0, 2, 1, 3] : (tensor<2x5x4x8xf32>) -> tensor<2x4x5x8xf32>
    return %6 : tensor<2x4x5x8xf32>
  }
  func.func private @odml.scaled_dot_product_attention.impl(%arg0: tensor<2x5x4x8xf32>, %arg1: tensor<2x7x4x8xf32>, %arg2: tensor<2x7x4x8xf32>, %arg3: tensor<2x1x5x7xf32>) -> tensor<2x5x4x8xf32> {
    %cst = stablehlo.constant dense<0.353553385> : tensor<2x4x5x7xf32>
    %0 = stablehlo.transpose %arg0, dims = [0, 2, 1, 3] : (tensor<2x5x4x8xf32>) -> tensor<2x4x5x8xf32>
    %1 = stablehlo.reshape %0 : (tensor<2x4x5x8xf32>) -> tensor<8x5x8xf32>
    %2 = stablehlo.transpose %arg1, dims = [0, 2, 3, 1] : (tensor<2x7x4x8xf32>) -> tensor<2x4x8x7xf32>
    %3 = stablehlo.reshape %2 : (tensor<2x4x8x7xf32>) -> tensor<8x8x7xf32>
    %4 = stablehlo.dot_general %1, %3, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x5x8xf32>, tensor<8x8x7xf32>) -> tensor<8x5x7xf32>
    %5 = stablehlo.reshape %4 : (tensor<8x5x7xf32>) -> tensor<2x4x5x7xf32>
    %6 = stablehlo.multiply %5, %cst : tensor<2x4x5x7xf32>
    %7 = stablehlo.reshape %arg3 : (tensor<2x1x5x7xf32>) -> tensor<2x5x7xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 2, 3] : (tensor<2x5x7xf32>) -> tensor<2x4x5x7xf32>
    %9 = stablehlo.add %6, %8 : tensor<2x4x5x7xf32>
    %10 = stablehlo.composite "odml.softmax" %9 {composite_attributes = {axis = -1 : i64}, decomposition = @odml.softmax.impl} : (tensor<2x4x5x7xf32>) -> tensor<2x4x5x7xf32>
    %11 = stablehlo.reshape %10 : (tensor<2x4x5x7xf32>) -> tensor<8x5x7xf32>
    %12 = stablehlo.transpose %arg2, dims = [0, 2, 1, 3] : (tensor<2x7x4x8xf32>) -> tensor<2x4x7x8xf32>
    %13 = stablehlo.reshape %12 : (tensor<2x4x7x8xf32>) -> tensor<8x7x8xf32>
    %14 = stablehlo.dot_general %11, %13, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x5x7xf32>, tensor<8x7x8xf32>) -> tensor<8x5x8xf32>
    %15 = stablehlo.reshape %14 : (tensor<8x5x8xf32>) -> tensor<2x4x5x8xf32>
    %16 = stablehlo.transpose %15, dims = [0, 2, 1, 3] : (tensor<2x4x5x8xf32>) -> tensor<2x5x4x8xf32>
    return %16 : tensor<2x5x4x8xf32>
  }
  func.func private @odml.softmax.impl(%arg0: tensor<2x4x5x7xf32>) -> tensor<2x4x5x7xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst_0) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x5x7xf32>, tensor<f32>) -> tensor<2x4x5xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2] : (tensor<2x4x5xf32>) -> tensor<2x4x5x7xf32>
    %2 = stablehlo.subtract %arg0, %1 : tensor<2x4x5x7xf32>
    %3 = stablehlo.exponential %2 : tensor<2x4x5x7xf32>
    %4 = stablehlo.reduce(%3 init: %cst) applies stablehlo.add across dimensions = [3] : (tensor<2x4x5x7xf32>, tensor<f32>) -> tensor<2x4x5xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1, 2] : (tensor<2x4x5xf32>) -> tensor<2x4x5x7xf32>
    %6 = stablehlo.divide %3, %5 : tensor<2x4x5x7xf32>
    return %6 : tensor<2x4x5x7xf32>
  }
}
