// A training step: an output, a loss, and a weight less its gradient.
module @step {
  func.func @main(%x: tensor<8xf32>, %w: tensor<16xf32>) -> (tensor<8xf32>, tensor<16xf32>, tensor<16xf32>) {
    %a = stablehlo.composite "acme.twice" %x {composite_attributes = {axis = 1 : i64, scale = 2.0 : f32}, decomposition = @twice8} : (tensor<8xf32>) -> tensor<8xf32>
    %loss = stablehlo.composite "acme.twice" %w {composite_attributes = {axis = 1 : i64, scale = 2.0 : f32}, decomposition = @twice16} : (tensor<16xf32>) -> tensor<16xf32>
    %g = stablehlo.composite "acme.tenth" %w {decomposition = @tenth} : (tensor<16xf32>) -> tensor<16xf32>
    %next = stablehlo.subtract %w, %g : tensor<16xf32>
    return %a, %loss, %next : tensor<8xf32>, tensor<16xf32>, tensor<16xf32>
  }
  func.func private @twice8(%x: tensor<8xf32>) -> tensor<8xf32> {
    %c = stablehlo.constant dense<2.0> : tensor<8xf32>
    %r = stablehlo.multiply %x, %c : tensor<8xf32>
    return %r : tensor<8xf32>
  }
  func.func private @twice16(%x: tensor<16xf32>) -> tensor<16xf32> {
    %c = stablehlo.constant dense<2.0> : tensor<16xf32>
    %r = stablehlo.multiply %x, %c : tensor<16xf32>
    return %r : tensor<16xf32>
  }
  func.func private @tenth(%x: tensor<16xf32>) -> tensor<16xf32> {
    %c = stablehlo.constant dense<0.1> : tensor<16xf32>
    %r = stablehlo.multiply %x, %c : tensor<16xf32>
    return %r : tensor<16xf32>
  }
}
