// CASE a vector and a matrix, or a batch of both
// where $L is 1x6; $M is 5x6; $T is 6x5; $P is [1, 0]; $D is contracting_dims = [1] x [0]; $O is contracting_dims = [1] x [1]; $Y is 1x5
// where $L is 6; $M is 5x6; $T is 6x5; $P is [1, 0]; $D is contracting_dims = [0] x [0]; $O is contracting_dims = [0] x [1]; $Y is 5
// where $L is 2x1x6; $M is 5x2x6; $T is 2x6x5; $P is [1, 2, 0]; $D is batching_dims = [0] x [0], contracting_dims = [2] x [1]; $O is batching_dims = [0] x [1], contracting_dims = [2] x [2]; $Y is 2x1x5
// has stablehlo.dot_general %arg0, %arg1, $O :
// lacks stablehlo.transpose
// within 1e-6
func.func @main(%x: tensor<$Lxf32>, %w: tensor<$Mxf32>) -> tensor<$Yxf32> {
  %0 = stablehlo.transpose %w, dims = $P : (tensor<$Mxf32>) -> tensor<$Txf32>
  %1 = stablehlo.dot_general %x, %0, $D : (tensor<$Lxf32>, tensor<$Txf32>) -> tensor<$Yxf32>
  return %1 : tensor<$Yxf32>
}

// CASE the matrix is on the left, and read again
// has stablehlo.dot_general %arg1, %arg0, contracting_dims = [0] x [0] :
// 1 times stablehlo.transpose
// within 1e-6
func.func @main(%x: tensor<6x1xf32>, %w: tensor<6x5xf32>) -> (tensor<5x1xf32>, tensor<5x6xf32>) {
  %0 = stablehlo.transpose %w, dims = [1, 0] : (tensor<6x5xf32>) -> tensor<5x6xf32>
  %1 = stablehlo.dot_general %0, %x, contracting_dims = [1] x [0]
    : (tensor<5x6xf32>, tensor<6x1xf32>) -> tensor<5x1xf32>
  return %1, %0 : tensor<5x1xf32>, tensor<5x6xf32>
}

// CASE two rows, an order of the result that would change, and a sharding
// where $L is 2x6; $M is 5x6; $T is 6x5; $P is [1, 0]; $Y is 2x5; $A is
// where $L is 1x6; $M is 4x5x6; $T is 6x5x4; $P is [2, 1, 0]; $Y is 1x5x4; $A is
// where $L is 1x6; $M is 5x6; $T is 6x5; $P is [1, 0]; $Y is 1x5; $A is {mhlo.sharding = "{replicated}"}
// stays
func.func @main(%x: tensor<$Lxf32>, %w: tensor<$Mxf32>) -> tensor<$Yxf32> {
  %0 = stablehlo.transpose %w, dims = $P : (tensor<$Mxf32>) -> tensor<$Txf32>
  %1 = stablehlo.dot_general %x, %0, contracting_dims = [1] x [0] $A
    : (tensor<$Lxf32>, tensor<$Txf32>) -> tensor<$Yxf32>
  return %1 : tensor<$Yxf32>
}
