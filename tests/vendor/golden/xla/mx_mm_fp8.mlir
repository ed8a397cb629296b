module @IrToHlo {
  func.func @main(%arg0: tensor<8x2xui8>, %arg1: tensor<4x2xui8>, %arg2: tensor<8x64xf8E5M2>, %arg3: tensor<4x64xf8E4M3FN>) -> tensor<4x8xf32> {
    %0 = stablehlo.composite "xla.mx_mm" %arg3, %arg2, %arg1, %arg0 {composite_attributes = {preferred_element_type = f32}, decomposition = @xla.mx_mm.impl} : (tensor<4x64xf8E4M3FN>, tensor<8x64xf8E5M2>, tensor<4x2xui8>, tensor<8x2xui8>) -> tensor<4x8xf32>
    %1 = stablehlo.optimization_barrier %0 : tensor<4x8xf32>
    return %1 : tensor<4x8xf32>
  }
  func.func private @xla.mx_mm.impl(%arg0: tensor<4x64xf8E4M3FN>, %arg1: tensor<8x64xf8E5M2>, %arg2: tensor<4x2xui8>, %arg3: tensor<8x2xui8>) -> tensor<4x8xf32> {
    %0 = stablehlo.bitcast_convert %arg2 : (tensor<4x2xui8>) -> tensor<4x2xf8E8M0FNU>
    %1 = stablehlo.bitcast_convert %arg3 : (tensor<8x2xui8>) -> tensor<8x2xf8E8M0FNU>
    %2 = stablehlo.composite "xla.scaled_dot" %arg0, %arg1, %0, %1 {composite_attributes = {dimension_numbers = [[[1], [1]], [[], []]], preferred_element_type = f32}, decomposition = @xla.scaled_dot.impl} : (tensor<4x64xf8E4M3FN>, tensor<8x64xf8E5M2>, tensor<4x2xf8E8M0FNU>, tensor<8x2xf8E8M0FNU>) -> tensor<4x8xf32>
    return %2 : tensor<4x8xf32>
  }
  func.func private @xla.scaled_dot.impl(%arg0: tensor<4x64xf8E4M3FN>, %arg1: tensor<8x64xf8E5M2>, %arg2: tensor<4x2xf8E8M0FNU>, %arg3: tensor<8x2xf8E8M0FNU>) -> tensor<4x8xf32> {
    %0 = stablehlo.convert %arg0 : (tensor<4x64xf8E4M3FN>) -> tensor<4x64xbf16>
    %1 = stablehlo.broadcast_in_dim %arg2, dims = [0, 1] : (tensor<4x2xf8E8M0FNU>) -> tensor<4x2x32xf8E8M0FNU>
    %2 = stablehlo.reshape %1 : (tensor<4x2x32xf8E8M0FNU>) -> tensor<4x64xf8E8M0FNU>
    %3 = stablehlo.convert %2 : (tensor<4x64xf8E8M0FNU>) -> tensor<4x64xbf16>
    %4 = stablehlo.multiply %0, %3 : tensor<4x64xbf16>
    %5 = stablehlo.convert %arg1 : (tensor<8x64xf8E5M2>) -> tensor<8x64xbf16>
    %6 = stablehlo.broadcast_in_dim %arg3, dims = [0, 1] : (tensor<8x2xf8E8M0FNU>) -> tensor<8x2x32xf8E8M0FNU>
    %7 = stablehlo.reshape %6 : (tensor<8x2x32xf8E8M0FNU>) -> tensor<8x64xf8E8M0FNU>
    %8 = stablehlo.convert %7 : (tensor<8x64xf8E8M0FNU>) -> tensor<8x64xbf16>
    %9 = stablehlo.multiply %5, %8 : tensor<8x64xbf16>
    %10 = stablehlo.dot_general %4, %9, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x64xbf16>, tensor<8x64xbf16>) -> tensor<4x8xf32>
    return %10 : tensor<4x8xf32>
  }
}
