// CASE operations on quantized types become arithmetic
// lacks !quant
// lacks chlo.
// lacks bitcast_convert
// has stablehlo.round_nearest_even
// not run
func.func @main(%x: tensor<4xf32>) -> (tensor<4xi8>, tensor<4xf32>) {
  %0 = stablehlo.uniform_quantize %x : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5:1>>
  %1 = stablehlo.bitcast_convert %0 : (tensor<4x!quant.uniform<i8:f32, 0.5:1>>) -> tensor<4xi8>
  %2 = stablehlo.uniform_dequantize %0 : (tensor<4x!quant.uniform<i8:f32, 0.5:1>>) -> tensor<4xf32>
  return %1, %2 : tensor<4xi8>, tensor<4xf32>
}
