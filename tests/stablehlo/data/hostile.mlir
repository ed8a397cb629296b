module @"<script>alert(1)</script>" {
  func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    %0 = stablehlo.composite "acme.f" %x {composite_attributes = {
      a = "<img src=x onerror=alert(1)>", b = "[red]plain[/red]"},
      decomposition = @impl} : (tensor<2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
  func.func private @impl(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }
}
