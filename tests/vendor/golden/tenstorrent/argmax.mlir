module @IrToHlo {
  func.func @main(%arg0: tensor<3x8xf32>) -> tensor<3xi64> {
    %0 = stablehlo.composite "tenstorrent.argmax" %arg0 {composite_attributes = {dim = 1 : i64, keepdim = false}, decomposition = @tenstorrent.argmax.impl} : (tensor<3x8xf32>) -> tensor<3xi64>
    return %0 : tensor<3xi64>
  }
  func.func private @tenstorrent.argmax.impl(%arg0: tensor<3x8xf32>) -> tensor<3xi64> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.iota dim = 0 : tensor<8xi32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<8xi32>) -> tensor<3x8xi32>
    %2:2 = stablehlo.reduce(%arg0 init: %cst), (%1 init: %c) across dimensions = [1] : (tensor<3x8xf32>, tensor<3x8xi32>, tensor<f32>, tensor<i32>) -> (tensor<3xf32>, tensor<3xi32>)
     reducer(%arg1: tensor<f32>, %arg3: tensor<f32>) (%arg2: tensor<i32>, %arg4: tensor<i32>)  {
      %4 = stablehlo.compare GE, %arg1, %arg3 : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %5 = stablehlo.select %4, %arg1, %arg3 : tensor<i1>, tensor<f32>
      %6 = stablehlo.compare EQ, %arg1, %arg3 : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %7 = stablehlo.minimum %arg2, %arg4 : tensor<i32>
      %8 = stablehlo.select %4, %arg2, %arg4 : tensor<i1>, tensor<i32>
      %9 = stablehlo.select %6, %7, %8 : tensor<i1>, tensor<i32>
      stablehlo.return %5, %9 : tensor<f32>, tensor<i32>
    }
    %3 = stablehlo.convert %2#1 : (tensor<3xi32>) -> tensor<3xi64>
    return %3 : tensor<3xi64>
  }
}
