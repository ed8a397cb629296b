// CASE a result that is rounded to f32
// where $O is add %w, %m
// where $O is subtract %w, %m
// where $O is multiply %w, %m
// where $O is divide %w, %m
// where $O is sqrt %m
// where $O is negate %m
// for $A in f32 f16 i16
// lacks f64
func.func @main(%x: tensor<64x64x$A>, %y: tensor<64x64xf32>) -> tensor<64x8x64xf32> {
  %v = stablehlo.convert %x : (tensor<64x64x$A>) -> tensor<64x64xf64>
  %a = stablehlo.convert %y : (tensor<64x64xf32>) -> tensor<64x64xf64>
  %c = stablehlo.constant dense<0.5> : tensor<64x64xf64>
  %w = stablehlo.maximum %a, %c : tensor<64x64xf64>
  %m = stablehlo.minimum %w, %v : tensor<64x64xf64>
  %o = stablehlo.$O : tensor<64x64xf64>
  %b = stablehlo.broadcast_in_dim %o, dims = [0, 2] : (tensor<64x64xf64>) -> tensor<64x8x64xf64>
  %r = stablehlo.convert %b : (tensor<64x8x64xf64>) -> tensor<64x8x64xf32>
  return %r : tensor<64x8x64xf32>
}

// CASE a value of f64 that is read too
// 1 times stablehlo.divide
// 1 times stablehlo.add
// has stablehlo.add %0, %0 : tensor<9xf64>
// has tensor<9xf32>
func.func @main(%x: tensor<9xf32>) -> (tensor<9xf32>, tensor<9xf64>) {
  %w = stablehlo.convert %x : (tensor<9xf32>) -> tensor<9xf64>
  %c = stablehlo.constant dense<1.0> : tensor<9xf64>
  %o = stablehlo.divide %c, %w : tensor<9xf64>
  %r = stablehlo.convert %o : (tensor<9xf64>) -> tensor<9xf32>
  %s = stablehlo.add %w, %w : tensor<9xf64>
  return %r, %s : tensor<9xf32>, tensor<9xf64>
}

// CASE numbers that f32 lacks, two roundings, other results, a sharding
// where $C is 1.0e-1; $O is multiply %w, %c; $T is f32
// where $C is 1.0; $O is multiply %t, %w; $T is f32
// where $C is 1.0; $O is multiply %x, %w; $T is f32
// where $C is 1.0; $O is divide %c, %w; $T is f16
// where $C is 1.0; $O is divide %c, %w {mhlo.sharding = "{replicated}"}; $T is f32
// stays
func.func @main(%v: tensor<9xf32>, %x: tensor<9xf64>) -> (tensor<9x$T>, tensor<9xf64>) {
  %c = stablehlo.constant dense<$C> : tensor<9xf64>
  %w = stablehlo.convert %v : (tensor<9xf32>) -> tensor<9xf64>
  %t = stablehlo.multiply %w, %w : tensor<9xf64>
  %o = stablehlo.$O : tensor<9xf64>
  %r = stablehlo.convert %o : (tensor<9xf64>) -> tensor<9x$T>
  return %r, %t : tensor<9x$T>, tensor<9xf64>
}

// CASE a scale that one composite chooses and another one reads
// has divide %cst, %0 : tensor<1xf32>
func.func @main(%x: tensor<9xf32>, %y: tensor<1xf64>) -> tensor<1xf32> {
  %s = stablehlo.composite "acme.choose" %x {decomposition = @choose} : (tensor<9xf32>) -> tensor<1xf64>
  %r = stablehlo.composite "acme.invert" %s {decomposition = @invert} : (tensor<1xf64>) -> tensor<1xf32>
  return %r : tensor<1xf32>
}
func.func private @choose(%x: tensor<9xf32>) -> tensor<1xf64> {
  %0 = stablehlo.slice %x [2:3] : (tensor<9xf32>) -> tensor<1xf32>
  %1 = stablehlo.convert %0 : (tensor<1xf32>) -> tensor<1xf64>
  return %1 : tensor<1xf64>
}
func.func private @invert(%s: tensor<1xf64>) -> tensor<1xf32> {
  %c = stablehlo.constant dense<1.0> : tensor<1xf64>
  %0 = stablehlo.divide %c, %s : tensor<1xf64>
  %1 = stablehlo.convert %0 : (tensor<1xf64>) -> tensor<1xf32>
  return %1 : tensor<1xf32>
}

// CASE a scale that another caller gives in f64
// stays
func.func @main(%x: tensor<1xf32>, %y: tensor<1xf64>) -> (tensor<1xf32>, tensor<1xf32>) {
  %s = stablehlo.convert %x : (tensor<1xf32>) -> tensor<1xf64>
  %r = stablehlo.composite "acme.invert" %s {decomposition = @invert} : (tensor<1xf64>) -> tensor<1xf32>
  %t = func.call @invert(%y) : (tensor<1xf64>) -> tensor<1xf32>
  return %r, %t : tensor<1xf32>, tensor<1xf32>
}
func.func private @invert(%s: tensor<1xf64>) -> tensor<1xf32> {
  %c = stablehlo.constant dense<1.0> : tensor<1xf64>
  %0 = stablehlo.divide %c, %s : tensor<1xf64>
  %1 = stablehlo.convert %0 : (tensor<1xf64>) -> tensor<1xf32>
  return %1 : tensor<1xf32>
}
