// CASE composites of several results, one of which returns the tuple of another one as it is
// lacks tuple
// has %0:2 = stablehlo.composite "acme.outer"
// has %0:2 = stablehlo.composite "acme.inner"
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = stablehlo.composite "acme.outer" %x {decomposition = @outer}
    : (tensor<4xf32>) -> tuple<tensor<4xf32>, tensor<4xf32>>
  %1 = stablehlo.get_tuple_element %0[0] : (tuple<tensor<4xf32>, tensor<4xf32>>) -> tensor<4xf32>
  %2 = stablehlo.get_tuple_element %0[1] : (tuple<tensor<4xf32>, tensor<4xf32>>) -> tensor<4xf32>
  return %1, %2 : tensor<4xf32>, tensor<4xf32>
}
func.func private @outer(%x: tensor<4xf32>) -> tuple<tensor<4xf32>, tensor<4xf32>> {
  %0 = stablehlo.composite "acme.inner" %x {decomposition = @inner}
    : (tensor<4xf32>) -> tuple<tensor<4xf32>, tensor<4xf32>>
  return %0 : tuple<tensor<4xf32>, tensor<4xf32>>
}
func.func private @inner(%x: tensor<4xf32>) -> tuple<tensor<4xf32>, tensor<4xf32>> {
  %0 = stablehlo.negate %x : tensor<4xf32>
  %1 = stablehlo.tuple %0, %x : tuple<tensor<4xf32>, tensor<4xf32>>
  return %1 : tuple<tensor<4xf32>, tensor<4xf32>>
}

// CASE a custom call, whose notes on the tuple no artifact can hold
// lacks tuple
// lacks result_tilings
// has %0:2 = stablehlo.custom_call @Qr
// not run
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @Qr(%x) {result_tilings = [[], []], xla_shape = "(f32[4], f32[4])"}
    : (tensor<4xf32>) -> tuple<tensor<4xf32>, tensor<4xf32>>
  %1 = stablehlo.get_tuple_element %0[1] : (tuple<tensor<4xf32>, tensor<4xf32>>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
