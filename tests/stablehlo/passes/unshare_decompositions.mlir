// CASE a function for each call, those inside of another one too
// 3 times func.func private
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.composite "a.outer" %x {decomposition = @outer} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = stablehlo.composite "a.inner" %0 {decomposition = @inner} : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
func.func private @outer(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.composite "a.inner" %x {decomposition = @inner} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @inner(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.negate %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}
