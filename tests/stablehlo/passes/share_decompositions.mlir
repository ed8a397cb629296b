// CASE functions that differ only in what they share are merged too
// load nested_duplicates
// 3 times func.func private
// within 0

// CASE other composites, attributes and decompositions keep a function each
// stays
func.func @main(%x: tensor<2xf32>) {
  %0 = stablehlo.composite "acme.f" %x {composite_attributes = {k = 1 : i64}, decomposition = @a}
    : (tensor<2xf32>) -> tensor<2xf32>
  %1 = stablehlo.composite "acme.f" %x {composite_attributes = {k = 2 : i64}, decomposition = @b}
    : (tensor<2xf32>) -> tensor<2xf32>
  %2 = stablehlo.composite "acme.g" %x {composite_attributes = {k = 1 : i64}, decomposition = @c}
    : (tensor<2xf32>) -> tensor<2xf32>
  %3 = stablehlo.composite "acme.f" %x {composite_attributes = {k = 1 : i64}, decomposition = @d}
    : (tensor<2xf32>) -> tensor<2xf32>
  return
}
func.func private @a(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.tanh %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @b(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.tanh %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @c(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.tanh %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @d(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.negate %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}

// CASE public and called functions are left alone
// has func.func @visible
// 3 times func.func
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.composite "a.f" %x {decomposition = @visible} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = stablehlo.composite "a.f" %0 {decomposition = @called} : (tensor<2xf32>) -> tensor<2xf32>
  %2 = func.call @called(%1) : (tensor<2xf32>) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}
func.func @visible(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.tanh %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @called(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.tanh %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}
