module @IrToHlo {
  func.func @main(%arg0: tensor<f32>, %arg1: tensor<f32>, %arg2: tensor<48x32xf8E5M2>, %arg3: tensor<16x32xf8E4M3FN>) -> tensor<16x48xf32> {
    %0 = stablehlo.transpose %arg2, dims = [1, 0] : (tensor<48x32xf8E5M2>) -> tensor<32x48xf8E5M2>
    %1 = stablehlo.reshape %arg1 : (tensor<f32>) -> tensor<1xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [1] : (tensor<1xf32>) -> tensor<16x1xf32>
    %3 = stablehlo.reshape %arg0 : (tensor<f32>) -> tensor<1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0] : (tensor<1xf32>) -> tensor<1x48xf32>
    %5 = stablehlo.composite "xla.scaled_dot" %arg3, %0, %2, %4 {composite_attributes = {dimension_numbers = [[[1], [0]], [[], []]], preferred_element_type = f32}, decomposition = @xla.scaled_dot.impl} : (tensor<16x32xf8E4M3FN>, tensor<32x48xf8E5M2>, tensor<16x1xf32>, tensor<1x48xf32>) -> tensor<16x48xf32>
    return %5 : tensor<16x48xf32>
  }
  func.func private @xla.scaled_dot.impl(%arg0: tensor<16x32xf8E4M3FN>, %arg1: tensor<32x48xf8E5M2>, %arg2: tensor<16x1xf32>, %arg3: tensor<1x48xf32>) -> tensor<16x48xf32> {
    %0 = stablehlo.convert %arg0 : (tensor<16x32xf8E4M3FN>) -> tensor<16x32xf32>
    %1 = stablehlo.convert %arg1 : (tensor<32x48xf8E5M2>) -> tensor<32x48xf32>
    %2 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x32xf32>, tensor<32x48xf32>) -> tensor<16x48xf32>
    %3 = stablehlo.reshape %arg2 : (tensor<16x1xf32>) -> tensor<16xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0] : (tensor<16xf32>) -> tensor<16x48xf32>
    %5 = stablehlo.multiply %2, %4 : tensor<16x48xf32>
    %6 = stablehlo.reshape %arg3 : (tensor<1x48xf32>) -> tensor<48xf32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [1] : (tensor<48xf32>) -> tensor<16x48xf32>
    %8 = stablehlo.multiply %5, %7 : tensor<16x48xf32>
    return %8 : tensor<16x48xf32>
  }
}
