// CASE a call of a vendor
// stays
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @acme_kernel(%x) {mhlo.attributes = {}, mhlo.version = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CASE a call without an equivalent
// refused custom call @mhlo.asine in @main has no StableHLO or CHLO equivalent here; did you mean 'mhlo.asin'?; known: mhlo.acos, mhlo.acosh, mhlo.asin, mhlo.asinh, mhlo.atanh, mhlo.cosh, mhlo.erf, mhlo.sinh, mhlo.tan, mhlo.topk
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @mhlo.asine(%x) {mhlo.attributes = {}, mhlo.version = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CASE the greatest elements without their number
// refused @mhlo.topk in @main has no attribute k
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @mhlo.topk(%x) {mhlo.attributes = {}, mhlo.version = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
