// CASE a maximum or minimum from the last finite number begins with infinity
// where $O is maximum; $E is f16; $S is -6.550400e+04; $I is 0xFC00
// where $O is minimum; $E is f16; $S is 6.550400e+04; $I is 0x7C00
// where $O is maximum; $E is bf16; $S is -3.389530e+38; $I is 0xFF80
// where $O is minimum; $E is bf16; $S is 3.389530e+38; $I is 0x7F80
// where $O is maximum; $E is f32; $S is -3.40282347E+38; $I is 0xFF800000
// where $O is minimum; $E is f32; $S is 3.40282347E+38; $I is 0x7F800000
// where $O is maximum; $E is f64; $S is -1.7976931348623157E+308; $I is 0xFFF0000000000000
// where $O is minimum; $E is f64; $S is 1.7976931348623157E+308; $I is 0x7FF0000000000000
// has stablehlo.constant dense<$I> : tensor<$E>
func.func @main(%x: tensor<40x2x$E>) -> tensor<40x$E> {
  %start = stablehlo.constant dense<$S> : tensor<$E>
  %0 = stablehlo.reduce(%x init: %start) applies stablehlo.$O across dimensions = [1]
    : (tensor<40x2x$E>, tensor<$E>) -> tensor<40x$E>
  return %0 : tensor<40x$E>
}

// CASE an infinity, another operation, the ends of integers, no number, and a dynamic size
// where $O is maximum; $E is f32; $S is 0xFF800000; $R is 4
// where $O is add; $E is f32; $S is -3.40282347E+38; $R is 4
// where $O is maximum; $E is i32; $S is -2147483648; $R is 4
// where $O is minimum; $E is ui8; $S is 255; $R is 4
// where $O is maximum; $E is i1; $S is false; $R is 4
// where $O is maximum; $E is f32; $S is 0x7FC00000; $R is 4
// where $O is maximum; $E is f32; $S is -3.40282347E+38; $R is ?
// stays
func.func @main(%x: tensor<$Rx5x$E>) -> tensor<$Rx$E> {
  %start = stablehlo.constant dense<$S> : tensor<$E>
  %0 = stablehlo.reduce(%x init: %start) applies stablehlo.$O across dimensions = [1]
    : (tensor<$Rx5x$E>, tensor<$E>) -> tensor<$Rx$E>
  return %0 : tensor<$Rx$E>
}

// CASE other starts, one of which is the wrong end
// where $O is maximum; $E is f32; $S is 0.0
// where $O is maximum; $E is f32; $S is 3.40282347E+38
// where $O is minimum; $E is i32; $S is 3
// where $O is maximum; $E is i8; $S is -100
// where $O is minimum; $E is ui8; $S is 7
// 2 times stablehlo.constant
// has stablehlo.$O %
func.func @main(%x: tensor<4x5x$E>) -> tensor<4x$E> {
  %start = stablehlo.constant dense<$S> : tensor<$E>
  %0 = stablehlo.reduce(%x init: %start) applies stablehlo.$O across dimensions = [1]
    : (tensor<4x5x$E>, tensor<$E>) -> tensor<4x$E>
  return %0 : tensor<4x$E>
}

// CASE a start that is no constant
// 1 times 0xFF800000
func.func @main(%x: tensor<4x5xf32>, %start: tensor<f32>) -> tensor<4xf32> {
  %0 = stablehlo.reduce(%x init: %start) applies stablehlo.maximum across dimensions = [1]
    : (tensor<4x5xf32>, tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
