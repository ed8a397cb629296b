module @IrToHlo {
  func.func @main(%arg0: tensor<2x3xf32>, %arg1: tensor<2x3xf32>, %arg2: tensor<2x3xf32>, %arg3: tensor<2x3xf32>) -> tensor<2x3x4xf32> {
    %0 = stablehlo.composite "tfl.pack" %arg3, %arg2, %arg1, %arg0 {composite_attributes = {axis = 2 : i32, values_count = 4 : i32}, decomposition = @tfl.pack.impl} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3x4xf32>
    return %0 : tensor<2x3x4xf32>
  }
  func.func private @tfl.pack.impl(%arg0: tensor<2x3xf32>, %arg1: tensor<2x3xf32>, %arg2: tensor<2x3xf32>, %arg3: tensor<2x3xf32>) -> tensor<2x3x4xf32> {
    %0 = stablehlo.reshape %arg0 : (tensor<2x3xf32>) -> tensor<2x3x1xf32>
    %1 = stablehlo.reshape %arg1 : (tensor<2x3xf32>) -> tensor<2x3x1xf32>
    %2 = stablehlo.reshape %arg2 : (tensor<2x3xf32>) -> tensor<2x3x1xf32>
    %3 = stablehlo.reshape %arg3 : (tensor<2x3xf32>) -> tensor<2x3x1xf32>
    %4 = stablehlo.concatenate %0, %1, %2, %3, dim = 2 : (tensor<2x3x1xf32>, tensor<2x3x1xf32>, tensor<2x3x1xf32>, tensor<2x3x1xf32>) -> tensor<2x3x4xf32>
    return %4 : tensor<2x3x4xf32>
  }
}
