// CASE an absolute value and a sign
// where $O is abs
// where $O is sign
// 1 times stablehlo.maximum
func.func @main(%x: tensor<64x64xi64>) -> tensor<64x64xi64> {
  %r = stablehlo.$O %x : tensor<64x64xi64>
  return %r : tensor<64x64xi64>
}

// CASE the least and the greatest number, and zero
// where $O is abs
// where $O is sign
// has stablehlo.maximum
func.func @main(%a: tensor<3xi64>) -> tensor<3xi64> {
  %x = stablehlo.constant dense<[-9223372036854775808, 0, 9223372036854775807]> : tensor<3xi64>
  %r = stablehlo.$O %x : tensor<3xi64>
  %y = stablehlo.add %r, %a : tensor<3xi64>
  return %y : tensor<3xi64>
}

// CASE other numbers, sizes that vary, and a sharding
// where $T is tensor<8x8xi32>; $A is
// where $T is tensor<8x8xf32>; $A is
// where $T is tensor<?x8xi64>; $A is
// where $T is tensor<8x8xi64>; $A is {mhlo.sharding = "{replicated}"}
// stays
func.func @main(%x: $T) -> $T {
  %r = stablehlo.abs %x $A : $T
  return %r : $T
}
