module @IrToHlo {
  func.func @main(%arg0: tensor<1x2x5x6xf32>) -> tensor<1x2x12x9xf32> {
    %0 = stablehlo.composite "tfl.mirror_pad" %arg0 {composite_attributes = {is_nchw_op = true, mode = "REFLECT", paddings = dense<[1, 2, 3, 4]> : tensor<4xi64>}, decomposition = @tfl.mirror_pad.impl} : (tensor<1x2x5x6xf32>) -> tensor<1x2x12x9xf32>
    return %0 : tensor<1x2x12x9xf32>
  }
  func.func private @tfl.mirror_pad.impl(%arg0: tensor<1x2x5x6xf32>) -> tensor<1x2x12x9xf32> {
    %0 = stablehlo.reverse %arg0, dims = [3] : tensor<1x2x5x6xf32>
    %1 = stablehlo.slice %0 [0:1, 0:2, 0:5, 4:5] : (tensor<1x2x5x6xf32>) -> tensor<1x2x5x1xf32>
    %2 = stablehlo.slice %0 [0:1, 0:2, 0:5, 1:3] : (tensor<1x2x5x6xf32>) -> tensor<1x2x5x2xf32>
    %3 = stablehlo.concatenate %1, %arg0, %2, dim = 3 : (tensor<1x2x5x1xf32>, tensor<1x2x5x6xf32>, tensor<1x2x5x2xf32>) -> tensor<1x2x5x9xf32>
    %4 = stablehlo.reverse %3, dims = [2] : tensor<1x2x5x9xf32>
    %5 = stablehlo.slice %4 [0:1, 0:2, 1:4, 0:9] : (tensor<1x2x5x9xf32>) -> tensor<1x2x3x9xf32>
    %6 = stablehlo.slice %4 [0:1, 0:2, 1:5, 0:9] : (tensor<1x2x5x9xf32>) -> tensor<1x2x4x9xf32>
    %7 = stablehlo.concatenate %5, %3, %6, dim = 2 : (tensor<1x2x3x9xf32>, tensor<1x2x5x9xf32>, tensor<1x2x4x9xf32>) -> tensor<1x2x12x9xf32>
    return %7 : tensor<1x2x12x9xf32>
  }
}
