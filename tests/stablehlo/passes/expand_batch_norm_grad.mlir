// CASE the numbers are those of the operation
// where $F is 4x3x5x5; $R is 3; $A is 1
// where $F is 2x6; $R is 6; $A is 1
// where $F is 3x4x2; $R is 3; $A is 0
// lacks batch_norm
// within 1e-5
func.func @main(%x: tensor<$Fxf32>, %scale: tensor<$Rxf32>, %mean: tensor<$Rxf32>,
    %deviation: tensor<$Rxf32>, %d: tensor<$Fxf32>)
    -> (tensor<$Fxf32>, tensor<$Rxf32>, tensor<$Rxf32>) {
  %half = stablehlo.constant dense<0.5> : tensor<$Rxf32>
  %square = stablehlo.multiply %deviation, %deviation : tensor<$Rxf32>
  %variance = stablehlo.add %square, %half : tensor<$Rxf32>
  %0:3 = "stablehlo.batch_norm_grad"(%x, %scale, %mean, %variance, %d)
    <{epsilon = 1.0e-5 : f32, feature_index = $A : i64}>
    : (tensor<$Fxf32>, tensor<$Rxf32>, tensor<$Rxf32>, tensor<$Rxf32>, tensor<$Fxf32>)
    -> (tensor<$Fxf32>, tensor<$Rxf32>, tensor<$Rxf32>)
  return %0#0, %0#1, %0#2 : tensor<$Fxf32>, tensor<$Rxf32>, tensor<$Rxf32>
}

// CASE a dynamic size
// refused stablehlo.batch_norm_grad of tensor<?x3xf32>: refine its shape first
func.func @main(%x: tensor<?x3xf32>, %row: tensor<3xf32>) -> tensor<?x3xf32> {
  %0:3 = "stablehlo.batch_norm_grad"(%x, %row, %row, %row, %x)
    <{epsilon = 1.0e-5 : f32, feature_index = 1 : i64}>
    : (tensor<?x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<?x3xf32>)
    -> (tensor<?x3xf32>, tensor<3xf32>, tensor<3xf32>)
  return %0#0 : tensor<?x3xf32>
}
