!signed = !quant.uniform<i8:f32, 0.5>
!unsigned = !quant.uniform<u8:f32, 0.5:128>
!per_axis = !quant.uniform<i8<-127:127>:f32:1, {0.5, 0.25}>
func.func @main(%x: tensor<4x2xf32>) -> (tensor<4x2x!unsigned>, tensor<4x2xf32>) {
  %0 = stablehlo.uniform_quantize %x : (tensor<4x2xf32>) -> tensor<4x2x!signed>
  %1 = stablehlo.composite "acme.abs" %0 {decomposition = @abs, version = 2 : i32}
    : (tensor<4x2x!signed>) -> tensor<4x2x!signed>
  %2 = stablehlo.uniform_quantize %1 : (tensor<4x2x!signed>) -> tensor<4x2x!unsigned>
  %3 = stablehlo.uniform_quantize %x : (tensor<4x2xf32>) -> tensor<4x2x!per_axis>
  %4 = stablehlo.uniform_dequantize %3 : (tensor<4x2x!per_axis>) -> tensor<4x2xf32>
  return %2, %4 : tensor<4x2x!unsigned>, tensor<4x2xf32>
}
func.func private @abs(%x: tensor<4x2x!signed>) -> tensor<4x2x!signed> {
  %0 = stablehlo.abs %x : tensor<4x2x!signed>
  return %0 : tensor<4x2x!signed>
}
