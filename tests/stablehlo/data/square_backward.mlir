module {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.multiply %x, %x : tensor<4xf32>
    %1 = stablehlo.composite "acme.square_backward" %x, %0 {decomposition = @d}
      : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %1 : tensor<4xf32>
  }
  func.func private @d(%x: tensor<4xf32>, %0: tensor<4xf32>) -> tensor<4xf32> {
    %1 = stablehlo.multiply %x, %x : tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}
