// A loop in a loop, whose bodies and a branch call composites of values from outside.
module @loops {
  func.func @main(%arg0: tensor<16xf32>, %arg1: tensor<16xf32>) -> tensor<16xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %two = stablehlo.constant dense<2> : tensor<i32>
    %0 = stablehlo.add %arg0, %arg1 : tensor<16xf32>
    %1:3 = stablehlo.while(%i = %zero, %j = %zero, %x = %0) : tensor<i32>, tensor<i32>, tensor<16xf32>
      cond {
        %2 = stablehlo.compare LT, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %2 : tensor<i1>
      } do {
        %2 = stablehlo.negate %x : tensor<16xf32>
        %3 = stablehlo.composite "acme.twice" %2 {composite_attributes = {axis = 1 : i64, scale = 2.000000e+00 : f32}, decomposition = @acme.twice.impl} : (tensor<16xf32>) -> tensor<16xf32>
        %4:2 = stablehlo.while(%k = %j, %y = %3) : tensor<i32>, tensor<16xf32>
          cond {
            %7 = stablehlo.compare LT, %k, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %7 : tensor<i1>
          } do {
            %7 = stablehlo.composite "acme.twice" %arg1 {composite_attributes = {axis = 1 : i64, scale = 2.000000e+00 : f32}, decomposition = @acme.twice.impl} : (tensor<16xf32>) -> tensor<16xf32>
            %8 = stablehlo.subtract %y, %7 : tensor<16xf32>
            %9 = stablehlo.composite "acme.twice" %8 {composite_attributes = {axis = 1 : i64, scale = 2.000000e+00 : f32}, decomposition = @acme.twice.impl} : (tensor<16xf32>) -> tensor<16xf32>
            %10 = stablehlo.add %k, %one : tensor<i32>
            stablehlo.return %10, %9 : tensor<i32>, tensor<16xf32>
          }
        %5 = "stablehlo.case"(%i) ({
          %7 = stablehlo.composite "acme.twice" %4#1 {composite_attributes = {axis = 1 : i64, scale = 2.000000e+00 : f32}, decomposition = @acme.twice.impl} : (tensor<16xf32>) -> tensor<16xf32>
          stablehlo.return %7 : tensor<16xf32>
        }, {
          stablehlo.return %x : tensor<16xf32>
        }) : (tensor<i32>) -> tensor<16xf32>
        %6 = stablehlo.add %i, %one : tensor<i32>
        stablehlo.return %6, %j, %5 : tensor<i32>, tensor<i32>, tensor<16xf32>
      }
    %11 = stablehlo.subtract %1#2, %arg0 : tensor<16xf32>
    return %11 : tensor<16xf32>
  }
  func.func private @acme.twice.impl(%arg0: tensor<16xf32>) -> tensor<16xf32> {
    %0 = stablehlo.add %arg0, %arg0 : tensor<16xf32>
    return %0 : tensor<16xf32>
  }
}
