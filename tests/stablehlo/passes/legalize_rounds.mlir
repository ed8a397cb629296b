// CASE halves, what is beside them, and great numbers
// where $E is f32
// where $E is f16
// where $E is bf16
// lacks stablehlo.round_nearest_afz
// within 1e-9
func.func @main(%a: tensor<9x$E>, %b: tensor<9x64x$E>) -> (tensor<9x$E>, tensor<9x64x$E>) {
  %c = stablehlo.constant dense<[0.5, -0.5, 1.5, -2.5, 0.499755859375, 0.49999997, -0.0, 1025.0, 2.0]> : tensor<9xf32>
  %x = stablehlo.convert %c : (tensor<9xf32>) -> tensor<9x$E>
  %0 = stablehlo.round_nearest_afz %x : tensor<9x$E>
  %1 = stablehlo.round_nearest_afz %b : tensor<9x64x$E>
  return %0, %1 : tensor<9x$E>, tensor<9x64x$E>
}

// CASE f64, sizes that vary, and a sharding
// where $T is tensor<8x8xf64>; $A is
// where $T is tensor<?x8xf32>; $A is
// where $T is tensor<8x8xf32>; $A is {mhlo.sharding = "{replicated}"}
// stays
func.func @main(%x: $T) -> $T {
  %r = stablehlo.round_nearest_afz %x $A : $T
  return %r : $T
}
