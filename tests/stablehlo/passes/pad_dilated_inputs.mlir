// CASE images first, in a decomposition as torch_xla's gradients are
// where $P is [1, 2], [1, 2]; $D is 2, 2; $Y is 2x6x10x10
// where $P is [2, 1], [1, 2]; $D is 2, 2; $Y is 2x6x10x10
// where $P is [0, 0], [1, 1]; $D is 2, 2; $Y is 2x6x7x9
// where $P is [-1, 0], [0, -2]; $D is 2, 3; $Y is 2x6x6x9
// where $P is [1, 0], [3, 4]; $D is 1, 2; $Y is 2x6x4x14
// lacks lhs_dilate
// has stablehlo.pad
// within 1e-6
func.func @main(%x: tensor<2x4x5x5xf32>, %w: tensor<6x4x3x3xf32>) -> tensor<$Yxf32> {
  %0 = stablehlo.composite "acme.gradient" %x, %w {decomposition = @gradient}
    : (tensor<2x4x5x5xf32>, tensor<6x4x3x3xf32>) -> tensor<$Yxf32>
  return %0 : tensor<$Yxf32>
}
func.func private @gradient(%x: tensor<2x4x5x5xf32>, %w: tensor<6x4x3x3xf32>) -> tensor<$Yxf32> {
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
    window = {stride = [1, 1], pad = [$P], lhs_dilate = [$D]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<2x4x5x5xf32>, tensor<6x4x3x3xf32>) -> tensor<$Yxf32>
  return %0 : tensor<$Yxf32>
}

// CASE channels last
// where $E is f32; $P is [1, 2], [1, 2]; $D is 2, 2; $Y is 2x10x10x6
// where $E is f32; $P is [2, 1], [1, 2]; $D is 2, 2; $Y is 2x10x10x6
// where $E is f32; $P is [0, 0], [1, 1]; $D is 2, 2; $Y is 2x7x9x6
// where $E is f32; $P is [-1, 0], [0, -2]; $D is 2, 3; $Y is 2x6x9x6
// where $E is f32; $P is [1, 0], [3, 4]; $D is 1, 2; $Y is 2x4x14x6
// where $E is i32; $P is [1, 2], [1, 2]; $D is 2, 2; $Y is 2x10x10x6
// lacks lhs_dilate
// has stablehlo.pad
// within 1e-6
func.func @main(%x: tensor<2x5x5x4x$E>, %w: tensor<3x3x4x6x$E>) -> tensor<$Yx$E> {
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {stride = [1, 1], pad = [$P], lhs_dilate = [$D]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<2x5x5x4x$E>, tensor<3x3x4x6x$E>) -> tensor<$Yx$E>
  return %0 : tensor<$Yx$E>
}

// CASE an input that is not spread, a transposed convolution, and a sharding
// where $P is [1, 1], [1, 1]; $D is 1, 1; $Y is 2x6x5x5; $A is
// where $P is [2, 2], [2, 2]; $D is 2, 2; $Y is 2x6x11x11; $A is
// where $P is [1, 2], [1, 2]; $D is 2, 2; $Y is 2x6x10x10; $A is , mhlo.sharding = "{replicated}"
// stays
func.func @main(%x: tensor<2x4x5x5xf32>, %w: tensor<6x4x3x3xf32>) -> tensor<$Yxf32> {
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
    window = {stride = [1, 1], pad = [$P], lhs_dilate = [$D]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64$A}
    : (tensor<2x4x5x5xf32>, tensor<6x4x3x3xf32>) -> tensor<$Yxf32>
  return %0 : tensor<$Yxf32>
}
