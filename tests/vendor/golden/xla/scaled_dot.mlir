module @IrToHlo {
  func.func @main(%arg0: tensor<f32>, %arg1: tensor<f32>, %arg2: tensor<48x32xf8E5M2>, %arg3: tensor<16x32xf8E4M3FN>) -> tensor<16x48xf32> {
    %0 = stablehlo.reshape %arg1 : (tensor<f32>) -> tensor<1xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<1xf32>) -> tensor<16x1xf32>
    %2 = stablehlo.reshape %arg0 : (tensor<f32>) -> tensor<1xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [1] : (tensor<1xf32>) -> tensor<48x1xf32>
    %4 = stablehlo.composite "xla.scaled_dot" %arg3, %arg2, %1, %3 {composite_attributes = {dimension_numbers = [[[1], [1]], [[], []]], preferred_element_type = f32}, decomposition = @xla.scaled_dot.impl} : (tensor<16x32xf8E4M3FN>, tensor<48x32xf8E5M2>, tensor<16x1xf32>, tensor<48x1xf32>) -> tensor<16x48xf32>
    return %4 : tensor<16x48xf32>
  }
  func.func private @xla.scaled_dot.impl(%arg0: tensor<16x32xf8E4M3FN>, %arg1: tensor<48x32xf8E5M2>, %arg2: tensor<16x1xf32>, %arg3: tensor<48x1xf32>) -> tensor<16x48xf32> {
    %0 = stablehlo.convert %arg0 : (tensor<16x32xf8E4M3FN>) -> tensor<16x32xf32>
    %1 = stablehlo.convert %arg1 : (tensor<48x32xf8E5M2>) -> tensor<48x32xf32>
    %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<48x32xf32>) -> tensor<32x48xf32>
    %3 = stablehlo.dot_general %0, %2, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x32xf32>, tensor<32x48xf32>) -> tensor<16x48xf32>
    %4 = stablehlo.reshape %arg2 : (tensor<16x1xf32>) -> tensor<16xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<16xf32>) -> tensor<16x48xf32>
    %6 = stablehlo.multiply %3, %5 : tensor<16x48xf32>
    %7 = stablehlo.reshape %arg3 : (tensor<48x1xf32>) -> tensor<48xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [1] : (tensor<48xf32>) -> tensor<16x48xf32>
    %9 = stablehlo.multiply %6, %8 : tensor<16x48xf32>
    return %9 : tensor<16x48xf32>
  }
}
