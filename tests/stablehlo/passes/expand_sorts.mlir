// CASE a stable sort of numbers and their places
// where $E is f32; $C is LT, %a, %b, TOTALORDER; $D is 0
// where $E is f32; $C is LT, %a, %b, TOTALORDER; $D is 1
// where $E is f32; $C is LT, %a, %b, TOTALORDER; $D is 2
// where $E is f32; $C is GT, %a, %b, TOTALORDER; $D is 0
// where $E is f32; $C is GT, %a, %b, TOTALORDER; $D is 1
// where $E is f32; $C is LT, %b, %a, TOTALORDER; $D is 2
// where $E is f16; $C is GT, %a, %b, TOTALORDER; $D is 1
// where $E is f16; $C is GT, %b, %a, TOTALORDER; $D is 1
// where $E is bf16; $C is GT, %a, %b, TOTALORDER; $D is 1
// where $E is bf16; $C is GT, %b, %a, TOTALORDER; $D is 1
// where $E is i32; $C is GT, %a, %b, SIGNED; $D is 1
// where $E is i32; $C is GT, %b, %a, SIGNED; $D is 1
// where $E is i64; $C is GT, %a, %b; $D is 1
// where $E is i64; $C is GT, %b, %a; $D is 1
// where $E is i1; $C is GT, %a, %b; $D is 1
// where $E is i1; $C is GT, %b, %a; $D is 1
// lacks stablehlo.sort
func.func @main(%x: tensor<3x7x2x$E>) -> (tensor<3x7x2x$E>, tensor<3x7x2xi32>) {
  %i = stablehlo.iota dim = $D : tensor<3x7x2xi32>
  %0:2 = "stablehlo.sort"(%x, %i) <{dimension = $D : i64, is_stable = true}> ({
  ^bb0(%a: tensor<$E>, %b: tensor<$E>, %c: tensor<i32>, %d: tensor<i32>):
    %1 = stablehlo.compare $C : (tensor<$E>, tensor<$E>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) : (tensor<3x7x2x$E>, tensor<3x7x2xi32>) -> (tensor<3x7x2x$E>, tensor<3x7x2xi32>)
  return %0#0, %0#1 : tensor<3x7x2x$E>, tensor<3x7x2xi32>
}

// CASE an order in which numbers that are none have no place
// for $O in %a,%b %b,%a
// lacks stablehlo.sort
// within 0
func.func @main(%x: tensor<3x70xf32>) -> (tensor<3x70xf32>, tensor<3x70xi32>) {
  %n = stablehlo.round_nearest_even %x : tensor<3x70xf32>
  %i = stablehlo.iota dim = 0 : tensor<3x70xi32>
  %0:2 = "stablehlo.sort"(%n, %i) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
    %1 = stablehlo.compare GT, $O, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) : (tensor<3x70xf32>, tensor<3x70xi32>) -> (tensor<3x70xf32>, tensor<3x70xi32>)
  return %0#0, %0#1 : tensor<3x70xf32>, tensor<3x70xi32>
}

// CASE a top-k whose places nobody reads, or only what nobody reads
// where $U is stablehlo.reshape %i : (tensor<3x7x2xi32>) -> tensor<42xi32>
// where $U is stablehlo.reshape %0#1 : (tensor<3x7x2xi32>) -> tensor<42xi32>
// lacks stablehlo.sort
func.func @main(%x: tensor<3x7x2xf32>) -> (tensor<3x7x2xf32>, tensor<3x7x2xi32>) {
  %i = stablehlo.iota dim = 2 : tensor<3x7x2xi32>
  %0:2 = "stablehlo.sort"(%x, %i) <{dimension = 2 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
    %1 = stablehlo.compare GT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) : (tensor<3x7x2xf32>, tensor<3x7x2xi32>) -> (tensor<3x7x2xf32>, tensor<3x7x2xi32>)
  %2 = $U
  %3 = stablehlo.reshape %2 : (tensor<42xi32>) -> tensor<3x14xi32>
  return %0#0, %i : tensor<3x7x2xf32>, tensor<3x7x2xi32>
}

// CASE a top-k of one number, and a sort of one by another comparison
// where $E is f32; $C is GT, %a, %b, TOTALORDER
// where $E is f64; $C is GE, %a, %d
// lacks stablehlo.sort
func.func @main(%x: tensor<3x1x$E>, %y: tensor<3x1x$E>) -> (tensor<3x1x$E>, tensor<3x1x$E>, tensor<3x1xi32>) {
  %i = stablehlo.iota dim = 1 : tensor<3x1xi32>
  %0:3 = "stablehlo.sort"(%x, %y, %i) <{dimension = 1 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<$E>, %b: tensor<$E>, %c: tensor<$E>, %d: tensor<$E>, %e: tensor<i32>, %f: tensor<i32>):
    %1 = stablehlo.compare $C : (tensor<$E>, tensor<$E>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) : (tensor<3x1x$E>, tensor<3x1x$E>, tensor<3x1xi32>) -> (tensor<3x1x$E>, tensor<3x1x$E>, tensor<3x1xi32>)
  return %0#0, %0#1, %0#2 : tensor<3x1x$E>, tensor<3x1x$E>, tensor<3x1xi32>
}

// CASE no strict order, a top-k, other types, a sharding, and too many elements
// where $E is f32; $C is GE, %a, %b; $D is 1; $A is; $R is 3
// where $E is f32; $C is GT, %a, %b, TOTALORDER; $D is 2; $A is; $R is 3
// where $E is f64; $C is GT, %a, %b, TOTALORDER; $D is 1; $A is; $R is 3
// where $E is ui32; $C is GT, %a, %b; $D is 1; $A is; $R is 3
// where $E is f32; $C is GT, %a, %b, TOTALORDER; $D is 1; $A is mhlo.sharding = "{replicated}"; $R is 3
// where $E is f32; $C is GT, %a, %b, TOTALORDER; $D is 1; $A is; $R is 100000000
// stays
func.func @main(%x: tensor<$Rx7x2x$E>) -> (tensor<$Rx7x2x$E>, tensor<$Rx7x2xi32>) {
  %i = stablehlo.iota dim = $D : tensor<$Rx7x2xi32>
  %0:2 = "stablehlo.sort"(%x, %i) <{dimension = $D : i64, is_stable = true}> ({
  ^bb0(%a: tensor<$E>, %b: tensor<$E>, %c: tensor<i32>, %d: tensor<i32>):
    %1 = stablehlo.compare $C : (tensor<$E>, tensor<$E>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) {$A} : (tensor<$Rx7x2x$E>, tensor<$Rx7x2xi32>) -> (tensor<$Rx7x2x$E>, tensor<$Rx7x2xi32>)
  return %0#0, %0#1 : tensor<$Rx7x2x$E>, tensor<$Rx7x2xi32>
}

// CASE a dynamic size
// stays
func.func @main(%x: tensor<?x7xf32>) -> tensor<?x7xf32> {
  %0 = "stablehlo.sort"(%x) <{dimension = 1 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.compare GT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) : (tensor<?x7xf32>) -> tensor<?x7xf32>
  return %0 : tensor<?x7xf32>
}
