func.func @main(%a: tensor<2x2xf64>) -> tensor<2x2xf64> {
  %0 = stablehlo.composite "acme.square" %a {decomposition = @square}
    : (tensor<2x2xf64>) -> tensor<2x2xf64>
  return %0 : tensor<2x2xf64>
}
func.func private @square(%a: tensor<2x2xf64>) -> tensor<2x2xf64> {
  %0 = stablehlo.multiply %a, %a : tensor<2x2xf64> loc("mul"("models/net.py":12:3))
  return %0 : tensor<2x2xf64>
}
