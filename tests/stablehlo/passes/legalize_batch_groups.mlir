// CASE groups of batches become groups of features
// where $X is 6x3x8x8; $W is 9x3x3x3; $Y is 2x9x6x6; $N is [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]; $G is 3; $P is
// where $X is 6x8x8x3; $W is 3x3x3x9; $Y is 2x6x6x9; $N is [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]; $G is 3; $P is
// where $X is 2x4x8x8; $W is 2x4x8x8; $Y is 4x1x3x3; $N is [f, b, 0, 1]x[i, o, 0, 1]->[f, b, 0, 1]; $G is 4; $P is pad = [[1, 1], [1, 1]]
// where $X is 8x5x7; $W is 4x5x2; $Y is 2x4x6; $N is [b, f, 0]x[o, i, 0]->[b, f, 0]; $G is 4; $P is
// has batch_group_count = 1 
// has feature_group_count = $G
// within 1e-6
func.func @main(%x: tensor<$Xxf32>, %w: tensor<$Wxf32>) -> tensor<$Yxf32> {
  %0 = func.call @convolution(%x, %w) : (tensor<$Xxf32>, tensor<$Wxf32>) -> tensor<$Yxf32>
  return %0 : tensor<$Yxf32>
}
func.func private @convolution(%x: tensor<$Xxf32>, %w: tensor<$Wxf32>) -> tensor<$Yxf32> {
  %0 = stablehlo.convolution(%x, %w) dim_numbers = $N, window = {$P}
    {batch_group_count = $G : i64, feature_group_count = 1 : i64}
    : (tensor<$Xxf32>, tensor<$Wxf32>) -> tensor<$Yxf32>
  return %0 : tensor<$Yxf32>
}

// CASE a dynamic size, and a sharding
// where $B is ?; $A is
// where $B is 8; $A is , mhlo.sharding = "{replicated}"
// stays
func.func @main(%x: tensor<$Bx5x7xf32>, %w: tensor<4x5x2xf32>) -> tensor<2x4x6xf32> {
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {}
    {batch_group_count = 4 : i64, feature_group_count = 1 : i64$A}
    : (tensor<$Bx5x7xf32>, tensor<4x5x2xf32>) -> tensor<2x4x6xf32>
  return %0 : tensor<2x4x6xf32>
}
