// The same composite at three sizes.
module @sizes {
  func.func @main(%arg0: tensor<8xbf16>, %arg1: tensor<16xbf16>, %arg2: tensor<24xbf16>) -> (tensor<8xbf16>, tensor<16xbf16>, tensor<24xbf16>) {
    %0 = stablehlo.composite "acme.twice" %arg0 {composite_attributes = {axis = 1 : i64, scale = 2.000000e+00 : f32}, decomposition = @impl8} : (tensor<8xbf16>) -> tensor<8xbf16>
    %1 = stablehlo.composite "acme.twice" %arg1 {composite_attributes = {axis = 1 : i64, scale = 2.000000e+00 : f32}, decomposition = @impl16} : (tensor<16xbf16>) -> tensor<16xbf16>
    %2 = stablehlo.composite "acme.twice" %arg2 {composite_attributes = {axis = 1 : i64, scale = 2.000000e+00 : f32}, decomposition = @impl24} : (tensor<24xbf16>) -> tensor<24xbf16>
    return %0, %1, %2 : tensor<8xbf16>, tensor<16xbf16>, tensor<24xbf16>
  }
  func.func private @impl8(%arg0: tensor<8xbf16>) -> tensor<8xbf16> {
    %0 = stablehlo.add %arg0, %arg0 : tensor<8xbf16>
    return %0 : tensor<8xbf16>
  }
  func.func private @impl16(%arg0: tensor<16xbf16>) -> tensor<16xbf16> {
    %0 = stablehlo.add %arg0, %arg0 : tensor<16xbf16>
    return %0 : tensor<16xbf16>
  }
  func.func private @impl24(%arg0: tensor<24xbf16>) -> tensor<24xbf16> {
    %0 = stablehlo.add %arg0, %arg0 : tensor<24xbf16>
    return %0 : tensor<24xbf16>
  }
}
