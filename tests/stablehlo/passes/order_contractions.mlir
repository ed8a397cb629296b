// CASE contracted dimensions are in the order that they have on the left
// where $D is contracting_dims = [0, 2] x [1, 0]; $L is 2x5x6; $R is 6x2; $Y is 5; $O is contracting_dims = [0, 2] x [0, 1]
// where $D is contracting_dims = [3, 1, 0] x [2, 3, 1]; $L is 2x3x5x4; $R is 7x2x4x3; $Y is 5x7; $O is contracting_dims = [0, 1, 3] x [1, 2, 3]
// where $D is batching_dims = [2, 0] x [4, 5], contracting_dims = [3, 1] x [1, 2]; $L is 8x3x8x3; $R is 1x3x3x2x8x8; $Y is 8x8x1x2; $O is batching_dims = [2, 0] x [4, 5], contracting_dims = [1, 3] x [1, 2]
// has stablehlo.dot_general %arg0, %0, $O :
// within 1e-6
func.func @main(%x: tensor<$Lxf32>, %y: tensor<$Rxf32>) -> tensor<$Yxf32> {
  %0 = stablehlo.dot_general %x, %y, $D : (tensor<$Lxf32>, tensor<$Rxf32>) -> tensor<$Yxf32>
  return %0 : tensor<$Yxf32>
}

// CASE what is in order, and a sharding
// where $D is [2, 0] x [1, 0]; $R is 2x6; $A is
// where $D is [0, 2] x [1, 0]; $R is 6x2; $A is {mhlo.sharding = "{replicated}"}
// stays
func.func @main(%x: tensor<2x5x6xf32>, %y: tensor<$Rxf32>) -> tensor<5xf32> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = $D $A
    : (tensor<2x5x6xf32>, tensor<$Rxf32>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}
