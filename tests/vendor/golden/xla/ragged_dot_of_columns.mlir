module @IrToHlo {
  func.func @main(%arg0: tensor<3xi32>, %arg1: tensor<8x24xbf16>, %arg2: tensor<8x16xbf16>) -> tensor<3x16x24xbf16> {
    %c = stablehlo.constant dense<0> : tensor<1xi32>
    %0 = stablehlo.concatenate %c, %arg0, dim = 0 : (tensor<1xi32>, tensor<3xi32>) -> tensor<4xi32>
    %1 = stablehlo.slice %0 [0:3] : (tensor<4xi32>) -> tensor<3xi32>
    %2 = stablehlo.subtract %arg0, %1 : tensor<3xi32>
    %3 = stablehlo.composite "chlo.ragged_dot" %arg2, %arg1, %2 {composite_attributes = {precision_config = ["DEFAULT", "DEFAULT"], ragged_dot_dimension_numbers = [dense<> : tensor<0xi64>, dense<> : tensor<0xi64>, dense<0> : tensor<1xi64>, dense<0> : tensor<1xi64>, dense<0> : tensor<1xi64>, dense<> : tensor<0xi64>]}, decomposition = @chlo.ragged_dot.impl, version = 1 : i32} : (tensor<8x16xbf16>, tensor<8x24xbf16>, tensor<3xi32>) -> tensor<3x16x24xbf16>
    return %3 : tensor<3x16x24xbf16>
  }
  func.func private @chlo.ragged_dot.impl(%arg0: tensor<8x16xbf16>, %arg1: tensor<8x24xbf16>, %arg2: tensor<3xi32>) -> tensor<3x16x24xbf16> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<3x8x16xbf16>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<[0, 1, 2, 3, 4, 5, 6, 7]> : tensor<8xi64>
    %0 = stablehlo.broadcast_in_dim %c_0, dims = [1] : (tensor<8xi64>) -> tensor<3x8xi64>
    %1 = "stablehlo.reduce_window"(%arg2, %c) <{base_dilations = array<i64: 1>, padding = dense<[[2, 0]]> : tensor<1x2xi64>, window_dilations = array<i64: 1>, window_dimensions = array<i64: 3>, window_strides = array<i64: 1>}> ({
    ^bb0(%arg3: tensor<i32>, %arg4: tensor<i32>):
      %21 = stablehlo.add %arg3, %arg4 : tensor<i32>
      stablehlo.return %21 : tensor<i32>
    }) : (tensor<3xi32>, tensor<i32>) -> tensor<3xi32>
    %2 = stablehlo.reshape %1 : (tensor<3xi32>) -> tensor<3x1xi32>
    %3 = stablehlo.convert %2 : (tensor<3x1xi32>) -> tensor<3x1xi64>
    %4 = stablehlo.reshape %3 : (tensor<3x1xi64>) -> tensor<3xi64>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<3xi64>) -> tensor<3x8xi64>
    %6 = stablehlo.compare LT, %0, %5 : (tensor<3x8xi64>, tensor<3x8xi64>) -> tensor<3x8xi1>
    %7 = stablehlo.reshape %arg2 : (tensor<3xi32>) -> tensor<3x1xi32>
    %8 = stablehlo.subtract %2, %7 : tensor<3x1xi32>
    %9 = stablehlo.convert %8 : (tensor<3x1xi32>) -> tensor<3x1xi64>
    %10 = stablehlo.reshape %9 : (tensor<3x1xi64>) -> tensor<3xi64>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0] : (tensor<3xi64>) -> tensor<3x8xi64>
    %12 = stablehlo.compare GE, %0, %11 : (tensor<3x8xi64>, tensor<3x8xi64>) -> tensor<3x8xi1>
    %13 = stablehlo.and %6, %12 : tensor<3x8xi1>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1] : (tensor<3x8xi1>) -> tensor<3x8x16xi1>
    %15 = stablehlo.broadcast_in_dim %arg0, dims = [1, 2] : (tensor<8x16xbf16>) -> tensor<3x8x16xbf16>
    %16 = stablehlo.select %14, %15, %cst : tensor<3x8x16xi1>, tensor<3x8x16xbf16>
    %17 = stablehlo.transpose %16, dims = [0, 2, 1] : (tensor<3x8x16xbf16>) -> tensor<3x16x8xbf16>
    %18 = stablehlo.reshape %17 : (tensor<3x16x8xbf16>) -> tensor<48x8xbf16>
    %19 = stablehlo.dot_general %18, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<48x8xbf16>, tensor<8x24xbf16>) -> tensor<48x24xbf16>
    %20 = stablehlo.reshape %19 : (tensor<48x24xbf16>) -> tensor<3x16x24xbf16>
    return %20 : tensor<3x16x24xbf16>
  }
}
