// CASE a name that matches nothing
// for $OPTION in only keep
// load block
// with {"$OPTION": "acme.twise"}
// refused no composite matches 'acme.twise'; the module has: acme.tanh, acme.twice, ptxla.outer; did you mean 'acme.twice'?

// CASE no composites
// load plain_calls
// stays

// CASE a name in a module without composites
// load plain_calls
// with {"only": "acme.*"}
// refused no composite matches 'acme.*'; the module has none

// CASE calls that were there before
// has call @mine
// lacks stablehlo.composite
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.composite "acme.f" %x {decomposition = @f} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.negate %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func @other(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = call @mine(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @mine(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }

// CASE no public function
// refused all functions of the module are priv
func.func private @main(%x: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.composite "x.y" %x {decomposition = @impl} : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @impl(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }

// CASE a decomposition that is a declaration
// refused @impl, the decomposition of x.y, is a declaration; give it a body, or keep the composite (--keep x.y)
func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.composite "x.y" %x {decomposition = @impl} : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @impl(tensor<f32>) -> tensor<f32>

// CASE a declaration that is kept
// with {"keep": "x.y"}
// has stablehlo.composite "x.y"
// not run
func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.composite "x.y" %x {decomposition = @impl} : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @impl(tensor<f32>) -> tensor<f32>
