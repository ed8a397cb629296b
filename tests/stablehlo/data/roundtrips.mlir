func.func @main(%a: tensor<4x8xbf16>, %b: tensor<8x4xbf16>) -> (tensor<4x4xf32>, tensor<8x4xbf16>) {
  %0 = stablehlo.dot %a, %b : (tensor<4x8xbf16>, tensor<8x4xbf16>) -> tensor<4x4xbf16>
  %1 = stablehlo.convert %0 : (tensor<4x4xbf16>) -> tensor<4x4xf32>
  %2 = stablehlo.convert %a : (tensor<4x8xbf16>) -> tensor<4x8xf32>
  %3 = stablehlo.transpose %2, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %4 = stablehlo.convert %3 : (tensor<8x4xf32>) -> tensor<8x4xbf16>
  return %1, %4 : tensor<4x4xf32>, tensor<8x4xbf16>
}
