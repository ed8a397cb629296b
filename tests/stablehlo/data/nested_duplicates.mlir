// Equal decompositions, each around an equal decomposition of its own, in an inconvenient order.
module @nested {
  func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.composite "acme.outer" %arg0 {decomposition = @outer.9} : (tensor<4xf32>) -> tensor<4xf32>
    %1 = stablehlo.composite "acme.outer" %0 {decomposition = @outer.2} : (tensor<4xf32>) -> tensor<4xf32>
    %2 = stablehlo.composite "acme.inner" %1 {decomposition = @inner.5} : (tensor<4xf32>) -> tensor<4xf32>
    %3 = stablehlo.composite "acme.other" %2 {decomposition = @inner.6} : (tensor<4xf32>) -> tensor<4xf32>
    return %3 : tensor<4xf32>
  }
  func.func private @inner.5(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.tanh %arg0 : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func private @inner.6(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.tanh %arg0 : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func private @outer.2(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.composite "acme.inner" %arg0 {decomposition = @inner.1} : (tensor<4xf32>) -> tensor<4xf32>
    %1 = stablehlo.negate %0 : tensor<4xf32>
    return %1 : tensor<4xf32>
  }
  func.func private @inner.1(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.tanh %arg0 : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func private @outer.9(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.composite "acme.inner" %arg0 {decomposition = @inner.8} : (tensor<4xf32>) -> tensor<4xf32>
    %1 = stablehlo.negate %0 : tensor<4xf32>
    return %1 : tensor<4xf32>
  }
  func.func private @inner.8(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.tanh %arg0 : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
