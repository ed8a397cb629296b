// Programs of operations that a consumer does not take, which the passes of its target replace.

// CASE a sort
func.func @main(%a0: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %s = "stablehlo.sort"(%a0) <{dimension = 1 : i64}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %c = stablehlo.compare LT, %p, %q, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %s : tensor<4x6xf32>
}

// CASE top-k
func.func @main(%a0: tensor<4x6xf32>) -> tensor<4x2xi32> {
  %i = stablehlo.iota dim = 1 : tensor<4x6xi32>
  %s:2 = "stablehlo.sort"(%a0, %i) <{dimension = 1 : i64, is_stable = false}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>, %x: tensor<i32>, %y: tensor<i32>):
    %c = stablehlo.compare GT, %p, %q, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }) : (tensor<4x6xf32>, tensor<4x6xi32>) -> (tensor<4x6xf32>, tensor<4x6xi32>)
  %r = stablehlo.slice %s#1 [0:4, 0:2] : (tensor<4x6xi32>) -> tensor<4x2xi32>
  return %r : tensor<4x2xi32>
}

// CASE argmax
func.func @main(%a0: tensor<4x6xf32>) -> tensor<4x1xi32> {
  %i = stablehlo.iota dim = 1 : tensor<4x6xi32>
  %l = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %z = stablehlo.constant dense<0> : tensor<i32>
  %s:2 = stablehlo.reduce(%a0 init: %l), (%i init: %z) across dimensions = [1]
    : (tensor<4x6xf32>, tensor<4x6xi32>, tensor<f32>, tensor<i32>) -> (tensor<4xf32>, tensor<4xi32>)
    reducer(%p: tensor<f32>, %q: tensor<f32>) (%x: tensor<i32>, %y: tensor<i32>) {
      %c = stablehlo.compare GE, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %d = stablehlo.select %c, %p, %q : tensor<i1>, tensor<f32>
      %e = stablehlo.compare EQ, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %f = stablehlo.minimum %x, %y : tensor<i32>
      %g = stablehlo.select %c, %x, %y : tensor<i1>, tensor<i32>
      %h = stablehlo.select %e, %f, %g : tensor<i1>, tensor<i32>
      stablehlo.return %d, %h : tensor<f32>, tensor<i32>
    }
  %r = stablehlo.reshape %s#1 : (tensor<4xi32>) -> tensor<4x1xi32>
  return %r : tensor<4x1xi32>
}

// CASE a running sum of booleans
func.func @main(%a0: tensor<4x6xf32>) -> tensor<4x6xi32> {
  %none = stablehlo.constant dense<0.0> : tensor<4x6xf32>
  %b = stablehlo.compare GT, %a0, %none : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xi1>
  %z = stablehlo.constant dense<0> : tensor<ui8>
  %n = stablehlo.constant dense<0> : tensor<4x6xui8>
  %m = stablehlo.convert %b : (tensor<4x6xi1>) -> tensor<4x6xui8>
  %w = "stablehlo.reduce_window"(%m, %z) <{window_dimensions = array<i64: 1, 6>,
    padding = dense<[[0, 0], [5, 0]]> : tensor<2x2xi64>}> ({
  ^bb0(%p: tensor<ui8>, %q: tensor<ui8>):
    %s = stablehlo.add %p, %q : tensor<ui8>
    stablehlo.return %s : tensor<ui8>
  }) : (tensor<4x6xui8>, tensor<ui8>) -> tensor<4x6xui8>
  %k = stablehlo.and %m, %m : tensor<4x6xui8>
  %t = stablehlo.compare NE, %k, %n : (tensor<4x6xui8>, tensor<4x6xui8>) -> tensor<4x6xi1>
  %i = stablehlo.convert %w : (tensor<4x6xui8>) -> tensor<4x6xi32>
  %o = stablehlo.constant dense<-1> : tensor<4x6xi32>
  %r = stablehlo.select %t, %i, %o : tensor<4x6xi1>, tensor<4x6xi32>
  return %r : tensor<4x6xi32>
}

// CASE all
func.func @main(%a0: tensor<4x2xf32>, %a1: tensor<4x2xf32>) -> tensor<4xi1> {
  %b = stablehlo.compare GT, %a0, %a1 : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xi1>
  %t = stablehlo.constant dense<true> : tensor<i1>
  %f = stablehlo.constant dense<false> : tensor<i1>
  %r = "stablehlo.reduce"(%b, %t) <{dimensions = array<i64: 1>}> ({
  ^bb0(%p: tensor<i1>, %q: tensor<i1>):
    %c = stablehlo.and %p, %q : tensor<i1>
    %d = stablehlo.select %c, %t, %f : tensor<i1>, tensor<i1>
    stablehlo.return %d : tensor<i1>
  }) : (tensor<4x2xi1>, tensor<i1>) -> tensor<4xi1>
  return %r : tensor<4xi1>
}

// CASE a remainder
func.func @main(%a0: tensor<4x6xf32>, %a1: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %r = stablehlo.remainder %a0, %a1 : tensor<4x6xf32>
  return %r : tensor<4x6xf32>
}

// CASE a remainder of the least integer
// where $E is i32; $M is -2147483648
// where $E is i64; $M is -9223372036854775808
// with [[$M, $M, $M, $M, $M, -10, -3, 10], [3, -3, 1, -1, $M, 3, $M, -1]]
func.func @main(%a0: tensor<8x$E>, %a1: tensor<8x$E>) -> tensor<8x$E> {
  %r = stablehlo.remainder %a0, %a1 : tensor<8x$E>
  return %r : tensor<8x$E>
}

// CASE a division
// with [[9223372036854775807, -9223372036854775808, -9, 40, 9223372036854775805], [1, 3, 4, -7, 3]]
func.func @main(%a0: tensor<5xi64>, %a1: tensor<5xi64>) -> tensor<5xi64> {
  %q = stablehlo.divide %a0, %a1 : tensor<5xi64>
  %p = stablehlo.multiply %q, %a1 : tensor<5xi64>
  %r = stablehlo.subtract %a0, %p : tensor<5xi64>
  return %r : tensor<5xi64>
}

// CASE rounding away from zero
// with [[0.5, -0.5, 0.49999997, -2.5, 8388607.0]]
func.func @main(%a0: tensor<5xf32>) -> tensor<5xf32> {
  %r = stablehlo.round_nearest_afz %a0 : tensor<5xf32>
  return %r : tensor<5xf32>
}

// CASE a product with dimensions in another order
func.func @main(%a0: tensor<3x4x2xf32>, %a1: tensor<2x3x5xf32>) -> tensor<4x5xf32> {
  %r = stablehlo.dot_general %a0, %a1, contracting_dims = [0, 2] x [1, 0]
    : (tensor<3x4x2xf32>, tensor<2x3x5xf32>) -> tensor<4x5xf32>
  return %r : tensor<4x5xf32>
}

// CASE a comparison with a Python number
// with [[0.3, 0.29999998, 0.30000004, -1]]
func.func @main(%a0: tensor<4xf32>) -> tensor<4xi1> {
  %c = stablehlo.constant dense<0.3> : tensor<4xf64>
  %w = stablehlo.convert %a0 : (tensor<4xf32>) -> tensor<4xf64>
  %r = stablehlo.compare GT, %w, %c : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xi1>
  return %r : tensor<4xi1>
}

// CASE an unsigned comparison
// with [[0, 7, 4294967295, 5], [1, 7, 3, 2147483648]]
func.func @main(%a0: tensor<4xui32>, %a1: tensor<4xui32>) -> tensor<4xi1> {
  %r = stablehlo.compare LT, %a0, %a1 : (tensor<4xui32>, tensor<4xui32>) -> tensor<4xi1>
  return %r : tensor<4xi1>
}

// CASE a maximum from zero
func.func @main(%a0: tensor<4x6xf32>) -> tensor<4xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %r = stablehlo.reduce(%a0 init: %z) applies stablehlo.maximum across dimensions = [1]
    : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// CASE a gradient of max pooling
func.func @main(%a0: tensor<1x2x8x8xf32>, %a1: tensor<1x2x4x4xf32>) -> tensor<1x2x8x8xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %r = "stablehlo.select_and_scatter"(%a0, %a1, %z) <{
    window_dimensions = array<i64: 1, 1, 3, 3>, window_strides = array<i64: 1, 1, 2, 2>,
    padding = dense<[[0, 0], [0, 0], [1, 1], [1, 1]]> : tensor<4x2xi64>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %c = stablehlo.compare GE, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }, {
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %c = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<1x2x8x8xf32>, tensor<1x2x4x4xf32>, tensor<f32>) -> tensor<1x2x8x8xf32>
  return %r : tensor<1x2x8x8xf32>
}

// CASE a gradient of a depthwise kernel
func.func @main(%a0: tensor<2x4x8x8xf32>, %a1: tensor<2x4x8x8xf32>) -> tensor<4x1x3x3xf32> {
  %r = stablehlo.convolution(%a0, %a1) dim_numbers = [f, b, 0, 1]x[i, o, 0, 1]->[f, b, 0, 1],
    window = {pad = [[1, 1], [1, 1]]}
    {batch_group_count = 4 : i64, feature_group_count = 1 : i64}
    : (tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>) -> tensor<4x1x3x3xf32>
  return %r : tensor<4x1x3x3xf32>
}

// CASE a gradient of a convolution with strides
func.func @main(%a0: tensor<3x2x4x4xf32>, %a1: tensor<3x5x3x3xf32>) -> tensor<5x2x8x8xf32> {
  %r = stablehlo.convolution(%a0, %a1) dim_numbers = [f, b, 0, 1]x[i, o, 0, 1]->[f, b, 0, 1],
    window = {pad = [[1, 2], [2, 1]], lhs_dilate = [2, 2]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<3x2x4x4xf32>, tensor<3x5x3x3xf32>) -> tensor<5x2x8x8xf32>
  return %r : tensor<5x2x8x8xf32>
}

// CASE a sum of a function of a constant
func.func @main(%a0: tensor<2xf32>) -> tensor<2xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %b = stablehlo.constant dense<true> : tensor<2x4xi1>
  %m = stablehlo.convert %b : (tensor<2x4xi1>) -> tensor<2x4xf32>
  %n = stablehlo.negate %m : tensor<2x4xf32>
  %s = stablehlo.reduce(%n init: %z) applies stablehlo.add across dimensions = [1]
    : (tensor<2x4xf32>, tensor<f32>) -> tensor<2xf32>
  %r = stablehlo.add %s, %a0 : tensor<2xf32>
  return %r : tensor<2xf32>
}

// CASE transposed upper triangular systems on the right
func.func @main(%a0: tensor<2x5x5xf32>, %a1: tensor<2x3x5xf32>) -> tensor<2x3x5xf32> {
  %one = stablehlo.constant dense<9.0> : tensor<2x5x5xf32>
  %a = stablehlo.add %a0, %one : tensor<2x5x5xf32>
  %r = "stablehlo.triangular_solve"(%a, %a1) <{left_side = false, lower = false,
    unit_diagonal = false, transpose_a = #stablehlo<transpose TRANSPOSE>}>
    : (tensor<2x5x5xf32>, tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  return %r : tensor<2x3x5xf32>
}

// CASE a triangular system with a diagonal of ones
func.func @main(%a0: tensor<6x6xf32>, %a1: tensor<6x2xf32>) -> tensor<6x2xf32> {
  %r = "stablehlo.triangular_solve"(%a0, %a1) <{left_side = true, lower = true,
    unit_diagonal = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>}>
    : (tensor<6x6xf32>, tensor<6x2xf32>) -> tensor<6x2xf32>
  return %r : tensor<6x2xf32>
}

// CASE a product of bytes with a long sum
func.func @main(%a0: tensor<2x1030xi8>, %a1: tensor<1030x3xi8>) -> tensor<2x3xi32> {
  %r = stablehlo.dot_general %a0, %a1, contracting_dims = [1] x [0]
    : (tensor<2x1030xi8>, tensor<1030x3xi8>) -> tensor<2x3xi32>
  return %r : tensor<2x3xi32>
}

// CASE a rotation by complex numbers
// where $W is %b
// where $W is %n
func.func @main(%a0: tensor<3x4x2xf32>, %a1: tensor<4xf32>) -> tensor<3x4x2xf32> {
  %l = stablehlo.slice %a0 [0:3, 0:4, 0:1] : (tensor<3x4x2xf32>) -> tensor<3x4x1xf32>
  %m = stablehlo.slice %a0 [0:3, 0:4, 1:2] : (tensor<3x4x2xf32>) -> tensor<3x4x1xf32>
  %c = stablehlo.complex %l, %m : tensor<3x4x1xcomplex<f32>>
  %z = stablehlo.reshape %c : (tensor<3x4x1xcomplex<f32>>) -> tensor<3x4xcomplex<f32>>
  %cos = stablehlo.cosine %a1 : tensor<4xf32>
  %sin = stablehlo.sine %a1 : tensor<4xf32>
  %p = stablehlo.complex %cos, %sin : tensor<4xcomplex<f32>>
  %b = stablehlo.broadcast_in_dim %p, dims = [1] : (tensor<4xcomplex<f32>>) -> tensor<3x4xcomplex<f32>>
  %e = stablehlo.convert %a1 : (tensor<4xf32>) -> tensor<4xcomplex<f32>>
  %n = stablehlo.broadcast_in_dim %e, dims = [1] : (tensor<4xcomplex<f32>>) -> tensor<3x4xcomplex<f32>>
  %q = stablehlo.multiply %z, $W : tensor<3x4xcomplex<f32>>
  %s = stablehlo.real %q : (tensor<3x4xcomplex<f32>>) -> tensor<3x4xf32>
  %t = stablehlo.imag %q : (tensor<3x4xcomplex<f32>>) -> tensor<3x4xf32>
  %u = stablehlo.reshape %s : (tensor<3x4xf32>) -> tensor<3x4x1xf32>
  %v = stablehlo.reshape %t : (tensor<3x4xf32>) -> tensor<3x4x1xf32>
  %r = stablehlo.concatenate %u, %v, dim = 2 : (tensor<3x4x1xf32>, tensor<3x4x1xf32>) -> tensor<3x4x2xf32>
  return %r : tensor<3x4x2xf32>
}

// CASE an inverse in f64
func.func @main(%a0: tensor<4xf32>) -> tensor<4xf32> {
  %c = stablehlo.constant dense<1.0> : tensor<f64>
  %w = stablehlo.convert %a0 : (tensor<4xf32>) -> tensor<4xf64>
  %b = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f64>) -> tensor<4xf64>
  %o = stablehlo.divide %b, %w : tensor<4xf64>
  %r = stablehlo.convert %o : (tensor<4xf64>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// CASE a scale that one composite chooses and two others read
func.func @main(%a0: tensor<4xf32>) -> tensor<4xf32> {
  %s:2 = stablehlo.composite "acme.choose" %a0 {decomposition = @choose}
    : (tensor<4xf32>) -> (tensor<1xf64>, tensor<1xi64>)
  %r = stablehlo.composite "acme.scale" %a0, %s#0, %s#1 {decomposition = @scale}
    : (tensor<4xf32>, tensor<1xf64>, tensor<1xi64>) -> tensor<4xf32>
  %t = stablehlo.composite "acme.scale" %r, %s#0, %s#1 {decomposition = @scale}
    : (tensor<4xf32>, tensor<1xf64>, tensor<1xi64>) -> tensor<4xf32>
  return %t : tensor<4xf32>
}
func.func private @choose(%x: tensor<4xf32>) -> (tensor<1xf64>, tensor<1xi64>) {
  %0 = stablehlo.slice %x [0:1] : (tensor<4xf32>) -> tensor<1xf32>
  %1 = stablehlo.reshape %0 : (tensor<1xf32>) -> tensor<f32>
  %2 = stablehlo.convert %1 : (tensor<f32>) -> tensor<f64>
  %3 = stablehlo.reshape %2 : (tensor<f64>) -> tensor<1xf64>
  %4 = stablehlo.convert %1 : (tensor<f32>) -> tensor<i64>
  %5 = stablehlo.reshape %4 : (tensor<i64>) -> tensor<1xi64>
  return %3, %5 : tensor<1xf64>, tensor<1xi64>
}
func.func private @scale(%x: tensor<4xf32>, %s: tensor<1xf64>, %z: tensor<1xi64>) -> tensor<4xf32> {
  %c = stablehlo.constant dense<1.0> : tensor<f64>
  %0 = stablehlo.reshape %s : (tensor<1xf64>) -> tensor<f64>
  %1 = stablehlo.divide %c, %0 : tensor<f64>
  %2 = stablehlo.convert %1 : (tensor<f64>) -> tensor<f32>
  %3 = stablehlo.reshape %z : (tensor<1xi64>) -> tensor<i64>
  %4 = stablehlo.convert %3 : (tensor<i64>) -> tensor<f32>
  %5 = stablehlo.add %2, %4 : tensor<f32>
  %6 = stablehlo.broadcast_in_dim %5, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %7 = stablehlo.multiply %x, %6 : tensor<4xf32>
  return %7 : tensor<4xf32>
}
