// CASE defaults are not written, and what is equal is there once
// 1 times dot_general
// lacks DEFAULT
// lacks stablehlo.pad
// lacks UNSIGNED
// has TOTALORDER
func.func @main(%x: tensor<2x3xf32>, %y: tensor<3x2xf32>, %m: tensor<2xui8>, %n: tensor<2xui8>)
    -> (tensor<2x2xf32>, tensor<2x2xi1>, tensor<2x3xf32>, tensor<f32>, tensor<2xi1>) {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT]
    : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %1 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT]
    : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %2 = stablehlo.compare LT, %0, %1, TOTALORDER
    : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xi1>
  %3 = stablehlo.constant dense<0.0> : tensor<f32>
  %4 = stablehlo.pad %x, %3, low = [0, 0], high = [0, 0], interior = [0, 0]
    : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %5 = stablehlo.compare LT, %m, %n, UNSIGNED : (tensor<2xui8>, tensor<2xui8>) -> tensor<2xi1>
  return %0, %2, %4, %3, %5
    : tensor<2x2xf32>, tensor<2x2xi1>, tensor<2x3xf32>, tensor<f32>, tensor<2xi1>
}

// CASE a precision that is no default stays
// has precision = [HIGHEST, HIGHEST]
func.func @main(%x: tensor<2x3xf32>, %y: tensor<3x2xf32>) -> tensor<2x2xf32> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST]
    : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}
