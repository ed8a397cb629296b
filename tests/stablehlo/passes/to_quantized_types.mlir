// CASE integers between two equal types are not made
// has stablehlo.uniform_quantize %arg0 : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8<-127:127>:f32, 5.000000e-01:1>>
// has stablehlo.uniform_dequantize %0 : (tensor<4x!quant.uniform<i8<-127:127>:f32, 5.000000e-01:1>>) -> tensor<4xf32>
// lacks composite
// lacks bitcast_convert
// lacks @quantize
// not run
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.composite "ptxla.quantize_per_tensor" %x {composite_attributes = {dtype = "i8", quant_max = 127 : i64, quant_min = -127 : i64, scale = 0.5 : f64, zero_point = 1 : i64}, decomposition = @quantize, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xi8>
  %1 = stablehlo.composite "ptxla.dequantize_per_tensor" %0 {composite_attributes = {dtype = "i8", quant_max = 127 : i64, quant_min = -127 : i64, scale = 0.5 : f64, zero_point = 1 : i64}, decomposition = @dequantize, version = 1 : i32} : (tensor<4xi8>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func private @quantize(%x: tensor<4xf32>) -> tensor<4xi8> {
  %0 = stablehlo.convert %x : (tensor<4xf32>) -> tensor<4xi8>
  return %0 : tensor<4xi8>
}
func.func private @dequantize(%x: tensor<4xi8>) -> tensor<4xf32> {
  %0 = stablehlo.convert %x : (tensor<4xi8>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CASE a scale that no quantized type has
// for $SCALE in 0.0 -0.5
// refused ptxla.dequantize_per_tensor has the scale
func.func @main(%x: tensor<4xi8>) -> tensor<4xbf16> {
  %1 = stablehlo.composite "ptxla.dequantize_per_tensor" %x {composite_attributes = {dtype = "i8", quant_max = 127 : i64, quant_min = -128 : i64, scale = $SCALE : f64, zero_point = 1 : i64}, decomposition = @dequantize, version = 1 : i32} : (tensor<4xi8>) -> tensor<4xbf16>
  return %1 : tensor<4xbf16>
}
func.func private @dequantize(%x: tensor<4xi8>) -> tensor<4xbf16> {
  %0 = stablehlo.convert %x : (tensor<4xi8>) -> tensor<4xbf16>
  return %0 : tensor<4xbf16>
}

// CASE an input is an integer, and composites of other names stay
// has stablehlo.bitcast_convert %arg0 : (tensor<4xui8>) -> tensor<4x!quant.uniform<u8:bf16, 2.500000e-01:128>>
// has stablehlo.composite "acme.f"
// not run
func.func @main(%x: tensor<4xui8>) -> tensor<4xbf16> {
  %0 = stablehlo.composite "acme.f" %x {decomposition = @f} : (tensor<4xui8>) -> tensor<4xui8>
  %1 = stablehlo.composite "ptxla.dequantize_per_tensor" %x {composite_attributes = {dtype = "ui8", quant_max = 255 : i64, quant_min = 0 : i64, scale = 0.25 : f64, zero_point = 128 : i64}, decomposition = @dequantize, version = 1 : i32} : (tensor<4xui8>) -> tensor<4xbf16>
  return %1 : tensor<4xbf16>
}
func.func private @f(%x: tensor<4xui8>) -> tensor<4xui8> {
  return %x : tensor<4xui8>
}
func.func private @dequantize(%x: tensor<4xui8>) -> tensor<4xbf16> {
  %0 = stablehlo.convert %x : (tensor<4xui8>) -> tensor<4xbf16>
  return %0 : tensor<4xbf16>
}
