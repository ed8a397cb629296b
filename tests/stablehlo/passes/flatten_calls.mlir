// CASE calls around composites disappear
// load wrapped_gelu
// lacks call @m.
// lacks func.func private @m.
// 3 times func.func private @ptxla.gelu.impl.
// 3 times stablehlo.composite

// CASE calls in calls and in loops
// load plain_calls
// lacks call @
// 1 times func.func
// 3 times stablehlo.tanh

// CASE only the named functions are inlined
// load plain_calls
// with {"only": {"outer"}}
// lacks call @outer
// 3 times call @inner
// has call @loop

// CASE public functions and declarations stay
// 2 times stablehlo.negate
// has call @elsewhere
// has func.func @visible
// not run
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = call @visible(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = call @elsewhere(%0) : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
func.func @visible(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.negate %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @elsewhere(tensor<2xf32>) -> tensor<2xf32>

// CASE a function that is called and also a decomposition stays
// 2 times stablehlo.negate
// lacks call @f
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = call @f(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = stablehlo.composite "acme.f" %0 {decomposition = @f} : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.negate %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}

// CASE recursion
// refused @f and @f refer to each other in a cycle; StableHLO programs cannot recurse
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = call @f(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = call @f(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// CASE swapped results
// has return %arg1, %arg0
func.func @main(%x: tensor<2xf32>, %y: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0:2 = call @swap(%x, %y) : (tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  return %0#0, %0#1 : tensor<2xf32>, tensor<2xf32>
}
func.func private @swap(%a: tensor<2xf32>, %b: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  return %b, %a : tensor<2xf32>, tensor<2xf32>
}
