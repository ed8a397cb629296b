// CASE a division of numbers that are not zero
// where $E is i8; $W is i32
// where $E is ui8; $W is i32
// where $E is i16; $W is i32
// where $E is ui16; $W is i32
// where $E is ui32; $W is f32
// where $E is i64; $W is f32
// has (tensor<64x64x$W>) -> tensor
func.func @main(%a: tensor<64x64x$E>, %b: tensor<64x64x$E>) -> tensor<64x64x$E> {
  %zero = stablehlo.constant dense<0> : tensor<64x64x$E>
  %other = stablehlo.constant dense<5> : tensor<64x64x$E>
  %0 = stablehlo.compare EQ, %b, %zero : (tensor<64x64x$E>, tensor<64x64x$E>) -> tensor<64x64xi1>
  %y = stablehlo.select %0, %other, %b : tensor<64x64xi1>, tensor<64x64x$E>
  %r = stablehlo.divide %a, %y : tensor<64x64x$E>
  return %r : tensor<64x64x$E>
}

// CASE the greatest and the least quotients of i64
// 3 times stablehlo.divide
func.func @main(%a: tensor<9xi64>) -> tensor<9xi64> {
  %x = stablehlo.constant dense<[-9223372036854775808, -9223372036854775808, -9223372036854775807,
    9223372036854775807, 9223372036854775807, 9223372036854775806, 9223372036854775805, -9, 9223372036854775807]> : tensor<9xi64>
  %y = stablehlo.constant dense<[1, -9223372036854775808, -1, -1, 1, 2, 3, 4, 1000003]> : tensor<9xi64>
  %q = stablehlo.divide %x, %y : tensor<9xi64>
  %r = stablehlo.add %q, %a : tensor<9xi64>
  return %r : tensor<9xi64>
}

// CASE other numbers, sizes that vary, and a sharding
// where $T is tensor<8x8xi32>; $A is
// where $T is tensor<8x8xui64>; $A is
// where $T is tensor<8x8xf32>; $A is
// where $T is tensor<?x8xi64>; $A is
// where $T is tensor<8x8xi64>; $A is {mhlo.sharding = "{replicated}"}
// stays
func.func @main(%x: $T, %y: $T) -> $T {
  %r = stablehlo.divide %x, %y $A : $T
  return %r : $T
}
