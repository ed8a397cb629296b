func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.composite "a.outer" %x {decomposition = @outer} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @outer(%y: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.composite "a.inner" %y {decomposition = @inner} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @inner(%z: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.sine %z : tensor<2xf32>
  return %0 : tensor<2xf32>
}
