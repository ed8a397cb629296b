module @IrToHlo {
  func.func @main(%arg0: tensor<2xi32>) -> tensor<2x3xf32> {
    %0 = stablehlo.composite "odml.random_uniform" %arg0 {composite_attributes = {seed = 3 : i64, seed2 = 4 : i64}, decomposition = @odml.random_uniform.impl} : (tensor<2xi32>) -> tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  }
  func.func private @odml.random_uniform.impl(%arg0: tensor<2xi32>) -> tensor<2x3xf32> {
    %cst = stablehlo.constant dense<[[0.0931847095, 0.299396276, 0.302700937], [0.905100286, 0.115855515, 6.347940e-01]]> : tensor<2x3xf32>
    return %cst : tensor<2x3xf32>
  }
}
