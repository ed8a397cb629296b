// CASE running sums of bytes
// for $E in ui8 i8
// has tensor<40x9xi32>
// lacks stablehlo.add %arg1, %arg2 : tensor<$E>
func.func @main(%x: tensor<40x9x$E>) -> tensor<40x9x$E> {
  %zero = stablehlo.constant dense<0> : tensor<$E>
  %0 = "stablehlo.reduce_window"(%x, %zero) <{window_dimensions = array<i64: 1, 9>,
    padding = dense<[[0, 0], [8, 0]]> : tensor<2x2xi64>}> ({
  ^bb0(%a: tensor<$E>, %b: tensor<$E>):
    %1 = stablehlo.add %a, %b : tensor<$E>
    stablehlo.return %1 : tensor<$E>
  }) : (tensor<40x9x$E>, tensor<$E>) -> tensor<40x9x$E>
  return %0 : tensor<40x9x$E>
}

// CASE sums of bytes, which wrap around
// for $E in ui8 i8
// has tensor<40x9xi32>
// lacks stablehlo.add %arg1, %arg2 : tensor<$E>
func.func @main(%x: tensor<40x9x$E>) -> tensor<40x$E> {
  %zero = stablehlo.constant dense<0> : tensor<$E>
  %0 = "stablehlo.reduce"(%x, %zero) <{dimensions = array<i64: 1>}> ({
  ^bb0(%a: tensor<$E>, %b: tensor<$E>):
    %1 = stablehlo.add %a, %b : tensor<$E>
    stablehlo.return %1 : tensor<$E>
  }) : (tensor<40x9x$E>, tensor<$E>) -> tensor<40x$E>
  return %0 : tensor<40x$E>
}

// CASE another type, another combination, and a sharding
// where $E is i32; $O is add; $A is
// where $E is ui8; $O is maximum; $A is
// where $E is ui8; $O is add; $A is mhlo.sharding = "{replicated}"
// stays
func.func @main(%x: tensor<4x9x$E>) -> tensor<4x$E> {
  %zero = stablehlo.constant dense<0> : tensor<$E>
  %0 = "stablehlo.reduce"(%x, %zero) <{dimensions = array<i64: 1>}> ({
  ^bb0(%a: tensor<$E>, %b: tensor<$E>):
    %1 = stablehlo.$O %a, %b : tensor<$E>
    stablehlo.return %1 : tensor<$E>
  }) {$A} : (tensor<4x9x$E>, tensor<$E>) -> tensor<4x$E>
  return %0 : tensor<4x$E>
}
