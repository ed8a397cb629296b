func.func @main(%unused: tensor<2xbf16>, %x: tensor<3xf32>, %n: tensor<i64>)
    -> (tensor<3xf32>, tensor<i64>) {
  %0 = stablehlo.composite "acme.twice" %x {decomposition = @twice}
    : (tensor<3xf32>) -> tensor<3xf32>
  %1 = stablehlo.add %n, %n : tensor<i64>
  return %0, %1 : tensor<3xf32>, tensor<i64>
}
func.func private @twice(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.add %x, %x : tensor<3xf32>
  return %0 : tensor<3xf32>
}
