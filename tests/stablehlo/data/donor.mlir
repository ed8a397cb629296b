module @m {
  func.func @main(%x: tensor<4x2xf32> {jax.buffer_donor = true}, %y: tensor<2xf32>)
      -> (tensor<4x2xf32>, tensor<2xf32>) {
    return %x, %y : tensor<4x2xf32>, tensor<2xf32>
  }
}
