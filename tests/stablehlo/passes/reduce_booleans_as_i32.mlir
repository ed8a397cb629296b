// CASE regions of one operation
// for $O in and or minimum
// for $I in true false given
// has applies stablehlo.m
func.func @main(%x: tensor<3x400x2xi1>, %given: tensor<i1>) -> tensor<400xi1> {
  %true = stablehlo.constant dense<true> : tensor<i1>
  %false = stablehlo.constant dense<false> : tensor<i1>
  %0 = "stablehlo.reduce"(%x, %$I) <{dimensions = array<i64: 0, 2>}> ({
  ^bb0(%a: tensor<i1>, %b: tensor<i1>):
    %1 = stablehlo.$O %b, %a : tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) : (tensor<3x400x2xi1>, tensor<i1>) -> tensor<400xi1>
  return %0 : tensor<400xi1>
}

// CASE a region as torch_xla writes it
// for $I in true false given
// has applies stablehlo.m
func.func @main(%x: tensor<3x400x2xi1>, %given: tensor<i1>) -> tensor<400xi1> {
  %true = stablehlo.constant dense<true> : tensor<i1>
  %false = stablehlo.constant dense<false> : tensor<i1>
  %0 = "stablehlo.reduce"(%x, %$I) <{dimensions = array<i64: 0, 2>}> ({
  ^bb0(%a: tensor<i1>, %b: tensor<i1>):
    %1 = stablehlo.and %a, %b : tensor<i1>
    %2 = stablehlo.select %1, %true, %false : tensor<i1>, tensor<i1>
    stablehlo.return %2 : tensor<i1>
  }) : (tensor<3x400x2xi1>, tensor<i1>) -> tensor<400xi1>
  return %0 : tensor<400xi1>
}

// CASE a region of several operations
// for $I in true false given
// has applies stablehlo.m
func.func @main(%x: tensor<3x400x2xi1>, %given: tensor<i1>) -> tensor<400xi1> {
  %true = stablehlo.constant dense<true> : tensor<i1>
  %false = stablehlo.constant dense<false> : tensor<i1>
  %0 = "stablehlo.reduce"(%x, %$I) <{dimensions = array<i64: 0, 2>}> ({
  ^bb0(%a: tensor<i1>, %b: tensor<i1>):
    %1 = stablehlo.not %a : tensor<i1>
    %2 = stablehlo.not %b : tensor<i1>
    %3 = stablehlo.and %1, %2 : tensor<i1>
    %4 = stablehlo.not %3 : tensor<i1>
    stablehlo.return %4 : tensor<i1>
  }) : (tensor<3x400x2xi1>, tensor<i1>) -> tensor<400xi1>
  return %0 : tensor<400xi1>
}

// CASE another operation, a value from outside, a sharding, and a dynamic size
// where $O is xor %a, %b; $A is; $N is 4
// where $O is and %a, %given; $A is; $N is 4
// where $O is and %a, %b; $A is mhlo.sharding = "{replicated}"; $N is 4
// where $O is and %a, %b; $A is; $N is ?
// stays
func.func @main(%x: tensor<3x$Nx5xi1>, %given: tensor<i1>) -> tensor<$Nxi1> {
  %0 = "stablehlo.reduce"(%x, %given) <{dimensions = array<i64: 0, 2>}> ({
  ^bb0(%a: tensor<i1>, %b: tensor<i1>):
    %1 = stablehlo.$O : tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) {$A} : (tensor<3x$Nx5xi1>, tensor<i1>) -> tensor<$Nxi1>
  return %0 : tensor<$Nxi1>
}
