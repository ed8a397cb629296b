// CASE no CHLO is left
// load wrapped_gelu
// lacks chlo.
// has stablehlo.composite
// within 1e-6

// CASE the named operations stay
// with {"kept": ("chlo.erf",)}
// has chlo.erf %arg0 : tensor<2xf32> -> tensor<2xf32>
// lacks chlo.asinh
// within 1e-6
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = chlo.erf %x : tensor<2xf32> -> tensor<2xf32>
  %1 = chlo.asinh %0 : tensor<2xf32> -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
