// CASE dimensions in reverse
// where $D is 0, 1; $M is
// where $D is 0, 2; $M is reverse of f32 along dimensions that
// says $M
func.func @main(%a: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %r = stablehlo.reverse %a, dims = [$D] : tensor<2x3x4xf32>
  return %r : tensor<2x3x4xf32>
}

// CASE windows over dilated sizes
// where $B is 1; $S is 3; $M is
// where $B is 2; $S is 5; $M is reduce_window of f32 with base dilations
// says $M
func.func @main(%a: tensor<2x3x4xf32>) -> tensor<2x$Sx4xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %r = "stablehlo.reduce_window"(%a, %z) <{window_dimensions = array<i64: 1, 2, 1>,
    base_dilations = array<i64: 1, $B, 1>, padding = dense<[[0, 0], [1, 0], [0, 0]]>
    : tensor<3x2xi64>}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
  }) : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<2x$Sx4xf32>
  return %r : tensor<2x$Sx4xf32>
}

// CASE volumes in groups
// where $F is 2; $G is 1; $M is
// where $F is 1; $G is 2; $M is convolution of f32 in three dim
// says $M
func.func @main(%a: tensor<1x2x3x2x2xf32>) -> tensor<1x2x3x2x2xf32> {
  %w = stablehlo.constant dense<1.0> : tensor<2x$Fx1x1x1xf32>
  %r = stablehlo.convolution(%a, %w)
    dim_numbers = [b, f, 0, 1, 2]x[o, i, 0, 1, 2]->[b, f, 0, 1, 2],
    window = {} {batch_group_count = 1 : i64, feature_group_count = $G : i64}
    : (tensor<1x2x3x2x2xf32>, tensor<2x$Fx1x1x1xf32>) -> tensor<1x2x3x2x2xf32>
  return %r : tensor<1x2x3x2x2xf32>
}

// CASE shifts, which LiteRT computes with the sign of the type
// where $O is logical; $E is ui32; $M is
// where $O is logical; $E is i32; $M is shift_right_logical of i32
// where $O is arithmetic; $E is i32; $M is
// where $O is arithmetic; $E is ui32; $M is shift_right_arithmetic of ui32
// says $M
func.func @main(%a: tensor<4x$E>, %b: tensor<4x$E>) -> tensor<4x$E> {
  %r = stablehlo.shift_right_$O %a, %b : tensor<4x$E>
  return %r : tensor<4x$E>
}
