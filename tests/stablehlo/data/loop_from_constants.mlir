func.func @main(%a0: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %start = stablehlo.constant dense<0.0> : tensor<4xf32>
  %loop:2 = stablehlo.while(%i = %zero, %x = %start) : tensor<i32>, tensor<4xf32>
    cond {
      %end = stablehlo.constant dense<3> : tensor<i32>
      %goes = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %goes : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %sum = stablehlo.add %x, %a0 : tensor<4xf32>
      stablehlo.return %next, %sum : tensor<i32>, tensor<4xf32>
    }
  %r = stablehlo.negate %loop#1 : tensor<4xf32>
  return %r : tensor<4xf32>
}
