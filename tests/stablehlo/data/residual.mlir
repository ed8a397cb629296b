// As autocast writes the gradient of a residual stream: it is added to in f32, and the next product
// takes it in bf16.
func.func @main(%a: tensor<4x8xbf16>, %b: tensor<8x4xbf16>, %r: tensor<4x4xf32>)
    -> (tensor<4x8xbf16>, tensor<4x4xf32>) {
  %0 = stablehlo.dot %a, %b : (tensor<4x8xbf16>, tensor<8x4xbf16>) -> tensor<4x4xbf16>
  %1 = stablehlo.convert %0 : (tensor<4x4xbf16>) -> tensor<4x4xf32>
  %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = stablehlo.convert %2 : (tensor<4x4xf32>) -> tensor<4x4xbf16>
  %4 = stablehlo.dot %3, %a : (tensor<4x4xbf16>, tensor<4x8xbf16>) -> tensor<4x8xbf16>
  %5 = stablehlo.add %r, %2 : tensor<4x4xf32>
  return %4, %5 : tensor<4x8xbf16>, tensor<4x4xf32>
}
