module @IrToHlo {
  func.func @main(%arg0: tensor<2x3xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
    %0:3 = stablehlo.composite "tfl.unpack" %arg0 {composite_attributes = {axis = 1 : i32, num = 3 : i32}, decomposition = @tfl.unpack.impl} : (tensor<2x3xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>)
    return %0#0, %0#1, %0#2 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
  }
  func.func private @tfl.unpack.impl(%arg0: tensor<2x3xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
    %0 = stablehlo.slice %arg0 [0:2, 0:1] : (tensor<2x3xf32>) -> tensor<2x1xf32>
    %1 = stablehlo.reshape %0 : (tensor<2x1xf32>) -> tensor<2xf32>
    %2 = stablehlo.slice %arg0 [0:2, 1:2] : (tensor<2x3xf32>) -> tensor<2x1xf32>
    %3 = stablehlo.reshape %2 : (tensor<2x1xf32>) -> tensor<2xf32>
    %4 = stablehlo.slice %arg0 [0:2, 2:3] : (tensor<2x3xf32>) -> tensor<2x1xf32>
    %5 = stablehlo.reshape %4 : (tensor<2x1xf32>) -> tensor<2xf32>
    return %1, %3, %5 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
  }
}
