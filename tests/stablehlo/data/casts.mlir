// Two calls of @half, in one of which a composite holds another cast; @idle is called by nothing.
module @step {
  func.func @main(%x: tensor<8x4xf32> loc("weight"), %n: tensor<?xi32>, %i: tensor<i32>)
      -> (tensor<8x4xf32>, tensor<?xf32>, tensor<f32>) {
    %0 = stablehlo.convert %x : (tensor<8x4xf32>) -> tensor<8x4xbf16>
    %1 = func.call @half(%0) : (tensor<8x4xbf16>) -> tensor<8x4xbf16>
    %2 = stablehlo.tanh %1 : tensor<8x4xbf16> loc("activation"("model.py":3:1))
    %3 = stablehlo.composite "acme.half" %2 {decomposition = @half}
      : (tensor<8x4xbf16>) -> tensor<8x4xbf16>
    %4 = stablehlo.add %0, %3 : tensor<8x4xbf16>
    %5 = stablehlo.convert %4 : (tensor<8x4xbf16>) -> tensor<8x4xf32>
    %6 = stablehlo.convert %n : (tensor<?xi32>) -> tensor<?xf32>
    %7 = stablehlo.constant dense<0.0> : tensor<f32>
    %8 = stablehlo.while(%a = %7) : tensor<f32> cond {
      %9 = stablehlo.convert %a : (tensor<f32>) -> tensor<i1>
      stablehlo.return %9 : tensor<i1>
    } do {
      stablehlo.return %a : tensor<f32>
    }
    return %5, %6, %8 : tensor<8x4xf32>, tensor<?xf32>, tensor<f32>
  }
  func.func private @half(%x: tensor<8x4xbf16>) -> tensor<8x4xbf16> {
    %0 = stablehlo.composite "acme.wide" %x {decomposition = @wide}
      : (tensor<8x4xbf16>) -> tensor<8x4xf32>
    %1 = stablehlo.convert %0 : (tensor<8x4xf32>) -> tensor<8x4xbf16>
    return %1 : tensor<8x4xbf16>
  }
  func.func private @wide(%x: tensor<8x4xbf16>) -> tensor<8x4xf32> {
    %0 = stablehlo.tanh %x : tensor<8x4xbf16> loc("activation"("model.py":3:1))
    %1 = stablehlo.convert %0 : (tensor<8x4xbf16>) -> tensor<8x4xf32>
    return %1 : tensor<8x4xf32>
  }
  func.func private @idle(%x: tensor<100xf32>) -> tensor<100xi8> {
    %0 = stablehlo.convert %x : (tensor<100xf32>) -> tensor<100xi8>
    return %0 : tensor<100xi8>
  }
}
