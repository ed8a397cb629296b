// CASE a remainder of numbers that are not zero
// where $E is f32; $N is 0.0; $M is 5.0
// where $E is f64; $N is 0.0; $M is 5.0
// where $E is bf16; $N is 0.0; $M is 5.0
// where $E is i8; $N is 0; $M is 5
// where $E is i16; $N is 0; $M is 5
// where $E is i32; $N is 0; $M is 5
// where $E is i64; $N is 0; $M is 5
// 2 times stablehlo.minimum
// 1 times stablehlo.remainder
func.func @main(%a: tensor<64x64x$E>, %b: tensor<64x64x$E>) -> tensor<64x64x$E> {
  %zero = stablehlo.constant dense<$N> : tensor<64x64x$E>
  %other = stablehlo.constant dense<$M> : tensor<64x64x$E>
  %0 = stablehlo.compare EQ, %a, %zero : (tensor<64x64x$E>, tensor<64x64x$E>) -> tensor<64x64xi1>
  %1 = stablehlo.compare EQ, %b, %zero : (tensor<64x64x$E>, tensor<64x64x$E>) -> tensor<64x64xi1>
  %x = stablehlo.select %0, %other, %a : tensor<64x64xi1>, tensor<64x64x$E>
  %y = stablehlo.select %1, %other, %b : tensor<64x64xi1>, tensor<64x64x$E>
  %r = stablehlo.remainder %x, %y : tensor<64x64x$E>
  return %r : tensor<64x64x$E>
}

// CASE a remainder of floats, also of zero and by zero
// has stablehlo.minimum
func.func @main(%a: tensor<64x64xf32>, %y: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %x = stablehlo.abs %a : tensor<64x64xf32>
  %r = stablehlo.remainder %x, %y : tensor<64x64xf32>
  return %r : tensor<64x64xf32>
}

// CASE unsigned numbers, sizes that vary, and a sharding
// where $T is tensor<8x8xui32>; $A is
// where $T is tensor<?x8xf32>; $A is
// where $T is tensor<8x8xf32>; $A is {mhlo.sharding = "{replicated}"}
// stays
func.func @main(%x: $T, %y: $T) -> $T {
  %r = stablehlo.remainder %x, %y $A : $T
  return %r : $T
}
