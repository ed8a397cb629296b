module @IrToHlo {
  func.func @main(%arg0: tensor<f64>, %arg1: tensor<2x2x5x8xf32>, %arg2: tensor<2x2x5x8xf32>, %arg3: tensor<2x4x5x8xf32>) -> tensor<2x4x5x8xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<5x5xf32>
    %c = stablehlo.constant dense<false> : tensor<5x5xi1>
    %c_0 = stablehlo.constant dense<true> : tensor<5x5xi1>
    %0 = stablehlo.transpose %arg3, dims = [0, 2, 1, 3] : (tensor<2x4x5x8xf32>) -> tensor<2x5x4x8xf32>
    %1 = stablehlo.transpose %arg2, dims = [0, 2, 1, 3] : (tensor<2x2x5x8xf32>) -> tensor<2x5x2x8xf32>
    %2 = stablehlo.transpose %arg1, dims = [0, 2, 1, 3] : (tensor<2x2x5x8xf32>) -> tensor<2x5x2x8xf32>
    %3 = stablehlo.iota dim = 0 : tensor<5xi32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0] : (tensor<5xi32>) -> tensor<5x5xi32>
    %5 = stablehlo.broadcast_in_dim %3, dims = [1] : (tensor<5xi32>) -> tensor<5x5xi32>
    %6 = stablehlo.compare GE, %4, %5 : (tensor<5x5xi32>, tensor<5x5xi32>) -> tensor<5x5xi1>
    %7 = stablehlo.select %6, %c_0, %c : tensor<5x5xi1>, tensor<5x5xi1>
    %8 = stablehlo.convert %arg0 : (tensor<f64>) -> tensor<f32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [] : (tensor<f32>) -> tensor<5x5xf32>
    %10 = stablehlo.select %7, %cst, %9 : tensor<5x5xi1>, tensor<5x5xf32>
    %11 = stablehlo.reshape %10 : (tensor<5x5xf32>) -> tensor<1x1x5x5xf32>
    %12 = stablehlo.composite "odml.scaled_dot_product_attention" %0, %1, %2, %11 {composite_attributes = {scale = 1.000000e+00 : f32}, decomposition = @odml.scaled_dot_product_attention.impl, result_layout = dense<[3, 1, 2, 0]> : tensor<4xindex>, xla_shape = "f32[2,5,4,8]{3,1,2,0}"} : (tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x8xf32>, tensor<1x1x5x5xf32>) -> tensor<2x5x4x8xf32>
    %13 = stablehlo.transpose %12, dims = [0, 2, 1, 3] : (tensor<2x5x4x8xf32>) -> tensor<2x4x5x8xf32>
    return %13 : tensor<2x4x5x8xf32>
  }
  func.func private @odml.scaled_dot_product_attention.impl(%arg0: tensor<2x5x4x8xf32>, %arg1: tensor<2x5x2x8xf32>, %arg2: tensor<2x5x2x8xf32>, %arg3: tensor<1x1x5x5xf32>) -> tensor<2x5x4x8xf32> {
    %0 = stablehlo.transpose %arg0, dims = [0, 2, 1, 3] : (tensor<2x5x4x8xf32>) -> tensor<2x4x5x8xf32>
    %1 = stablehlo.reshape %0 : (tensor<2x4x5x8xf32>) -> tensor<8x5x8xf32>
    %2 = stablehlo.transpose %arg1, dims = [0, 2, 1, 3] : (tensor<2x5x2x8xf32>) -> tensor<2x2x5x8xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1, 3, 4] : (tensor<2x2x5x8xf32>) -> tensor<2x2x2x5x8xf32>
    %4 = stablehlo.reshape %3 : (tensor<2x2x2x5x8xf32>) -> tensor<2x4x5x8xf32>
    %5 = stablehlo.transpose %4, dims = [0, 1, 3, 2] : (tensor<2x4x5x8xf32>) -> tensor<2x4x8x5xf32>
    %6 = stablehlo.reshape %5 : (tensor<2x4x8x5xf32>) -> tensor<8x8x5xf32>
    %7 = stablehlo.dot_general %1, %6, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x5x8xf32>, tensor<8x8x5xf32>) -> tensor<8x5x5xf32>
    %8 = stablehlo.reshape %7 : (tensor<8x5x5xf32>) -> tensor<2x4x5x5xf32>
    %9 = stablehlo.reshape %arg3 : (tensor<1x1x5x5xf32>) -> tensor<5x5xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [2, 3] : (tensor<5x5xf32>) -> tensor<2x4x5x5xf32>
    %11 = stablehlo.add %8, %10 : tensor<2x4x5x5xf32>
    %12 = stablehlo.composite "odml.softmax" %11 {composite_attributes = {axis = -1 : i64}, decomposition = @odml.softmax.impl} : (tensor<2x4x5x5xf32>) -> tensor<2x4x5x5xf32>
    %13 = stablehlo.reshape %12 : (tensor<2x4x5x5xf32>) -> tensor<8x5x5xf32>
    %14 = stablehlo.transpose %arg2, dims = [0, 2, 1, 3] : (tensor<2x5x2x8xf32>) -> tensor<2x2x5x8xf32>
    %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1, 3, 4] : (tensor<2x2x5x8xf32>) -> tensor<2x2x2x5x8xf32>
    %16 = stablehlo.reshape %15 : (tensor<2x2x2x5x8xf32>) -> tensor<8x5x8xf32>
    %17 = stablehlo.dot_general %13, %16, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x5x5xf32>, tensor<8x5x8xf32>) -> tensor<8x5x8xf32>
    %18 = stablehlo.reshape %17 : (tensor<8x5x8xf32>) -> tensor<2x4x5x8xf32>
    %19 = stablehlo.transpose %18, dims = [0, 2, 1, 3] : (tensor<2x4x5x8xf32>) -> tensor<2x5x4x8xf32>
    return %19 : tensor<2x5x4x8xf32>
  }
  func.func private @odml.softmax.impl(%arg0: tensor<2x4x5x5xf32>) -> tensor<2x4x5x5xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst_0) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x5x5xf32>, tensor<f32>) -> tensor<2x4x5xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2] : (tensor<2x4x5xf32>) -> tensor<2x4x5x5xf32>
    %2 = stablehlo.subtract %arg0, %1 : tensor<2x4x5x5xf32>
    %3 = stablehlo.exponential %2 : tensor<2x4x5x5xf32>
    %4 = stablehlo.reduce(%3 init: %cst) applies stablehlo.add across dimensions = [3] : (tensor<2x4x5x5xf32>, tensor<f32>) -> tensor<2x4x5xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1, 2] : (tensor<2x4x5xf32>) -> tensor<2x4x5x5xf32>
    %6 = stablehlo.divide %3, %5 : tensor<2x4x5x5xf32>
    return %6 : tensor<2x4x5x5xf32>
  }
}
