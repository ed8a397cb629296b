// CASE the greatest element of each window
// for $E in f32 bf16
// where $X is 1x2x7x9; $S is 1x2x3x4; $W is 1, 1, 2, 2; $T is 1, 1, 2, 2; $P is [0, 0], [0, 0], [0, 0], [0, 0]; $R is 4
// where $X is 2x3x8x8; $S is 2x3x4x4; $W is 1, 1, 3, 3; $T is 1, 1, 2, 2; $P is [0, 0], [0, 0], [1, 1], [1, 1]; $R is 4
// where $X is 2x10; $S is 2x12; $W is 1, 3; $T is 1, 1; $P is [0, 0], [2, 2]; $R is 2
// where $X is 1x1x5x5; $S is 1x1x2x2; $W is 1, 1, 2, 2; $T is 1, 1, 3, 3; $P is [0, 0], [0, 0], [0, 0], [0, 0]; $R is 4
// where $X is 1x4; $S is 1x4; $W is 1, 2; $T is 1, 2; $P is [0, 0], [2, 2]; $R is 2
// where $X is 1x5x5x5; $S is 1x3x3x3; $W is 1, 3, 3, 3; $T is 1, 2, 2, 2; $P is [0, 0], [1, 1], [1, 1], [1, 1]; $R is 4
// lacks stablehlo.select_and_scatter
func.func @main(%x: tensor<$Xx$E>, %source: tensor<$Sx$E>) -> tensor<$Xx$E> {
  %init = stablehlo.constant dense<0.0> : tensor<$E>
  %0 = "stablehlo.select_and_scatter"(%x, %source, %init) <{
    window_dimensions = array<i64: $W>, window_strides = array<i64: $T>,
    padding = dense<[$P]> : tensor<$Rx2xi64>}> ({
  ^bb0(%a: tensor<$E>, %b: tensor<$E>):
    %1 = stablehlo.compare GE, %a, %b : (tensor<$E>, tensor<$E>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }, {
  ^bb0(%a: tensor<$E>, %b: tensor<$E>):
    %1 = stablehlo.add %a, %b : tensor<$E>
    stablehlo.return %1 : tensor<$E>
  }) : (tensor<$Xx$E>, tensor<$Sx$E>, tensor<$E>) -> tensor<$Xx$E>
  return %0 : tensor<$Xx$E>
}

// CASE uneven windows, of which XLA takes another one of equal elements
// where $X is 1x1x9x9; $S is 1x1x8x9; $W is 1, 1, 3, 2; $T is 1, 1, 1, 1; $P is [0, 0], [0, 0], [1, 0], [0, 1]; $R is 4
// lacks stablehlo.select_and_scatter
// within 0
func.func @main(%x: tensor<$Xxf32>, %source: tensor<$Sxf32>) -> tensor<$Xxf32> {
  %init = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.select_and_scatter"(%x, %source, %init) <{
    window_dimensions = array<i64: $W>, window_strides = array<i64: $T>,
    padding = dense<[$P]> : tensor<$Rx2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<$Xxf32>, tensor<$Sxf32>, tensor<f32>) -> tensor<$Xxf32>
  return %0 : tensor<$Xxf32>
}

// CASE another order, and another combination
// where $O is %b, %a; $C is add
// where $O is %a, %b; $C is maximum
// stays
func.func @main(%x: tensor<2x4xf32>, %source: tensor<2x2xf32>) -> tensor<2x4xf32> {
  %init = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.select_and_scatter"(%x, %source, %init) <{
    window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.compare GE, $O : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.$C %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<2x4xf32>, tensor<2x2xf32>, tensor<f32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// CASE a dynamic size
// refused tensor<?x4xf32>: refine its shape
func.func @main(%x: tensor<?x4xf32>, %source: tensor<?x2xf32>) -> tensor<?x4xf32> {
  %init = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.select_and_scatter"(%x, %source, %init) <{
    window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<?x4xf32>, tensor<?x2xf32>, tensor<f32>) -> tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}
