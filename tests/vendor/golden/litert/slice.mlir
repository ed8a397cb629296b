module @IrToHlo {
  func.func @main(%arg0: tensor<2xi32>, %arg1: tensor<2xi32>, %arg2: tensor<3x5xf32>) -> tensor<2x3xf32> {
    %0 = stablehlo.composite "tfl.slice" %arg2, %arg1, %arg0 {decomposition = @tfl.slice.impl} : (tensor<3x5xf32>, tensor<2xi32>, tensor<2xi32>) -> tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  }
  func.func private @tfl.slice.impl(%arg0: tensor<3x5xf32>, %arg1: tensor<2xi32>, %arg2: tensor<2xi32>) -> tensor<2x3xf32> {
    %c = stablehlo.constant dense<[0, 1, 2]> : tensor<3xi64>
    %c_0 = stablehlo.constant dense<2> : tensor<i32>
    %c_1 = stablehlo.constant dense<[0, 1]> : tensor<2xi64>
    %c_2 = stablehlo.constant dense<1> : tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.slice %arg1 [0:1] : (tensor<2xi32>) -> tensor<1xi32>
    %1 = stablehlo.reshape %0 : (tensor<1xi32>) -> tensor<i32>
    %2 = stablehlo.clamp %c_3, %1, %c_2 : tensor<i32>
    %3 = stablehlo.convert %2 : (tensor<i32>) -> tensor<i64>
    %4 = stablehlo.broadcast_in_dim %3, dims = [] : (tensor<i64>) -> tensor<2xi64>
    %5 = stablehlo.add %4, %c_1 : tensor<2xi64>
    %6 = stablehlo.convert %5 : (tensor<2xi64>) -> tensor<2xui32>
    %7 = "stablehlo.gather"(%arg0, %6) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 5>}> : (tensor<3x5xf32>, tensor<2xui32>) -> tensor<2x5xf32>
    %8 = stablehlo.slice %arg1 [1:2] : (tensor<2xi32>) -> tensor<1xi32>
    %9 = stablehlo.reshape %8 : (tensor<1xi32>) -> tensor<i32>
    %10 = stablehlo.clamp %c_3, %9, %c_0 : tensor<i32>
    %11 = stablehlo.convert %10 : (tensor<i32>) -> tensor<i64>
    %12 = stablehlo.broadcast_in_dim %11, dims = [] : (tensor<i64>) -> tensor<3xi64>
    %13 = stablehlo.add %12, %c : tensor<3xi64>
    %14 = stablehlo.convert %13 : (tensor<3xi64>) -> tensor<3xui32>
    %15 = "stablehlo.gather"(%7, %14) <{dimension_numbers = #stablehlo.gather<offset_dims = [0], collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 2, 1>}> : (tensor<2x5xf32>, tensor<3xui32>) -> tensor<2x3xf32>
    return %15 : tensor<2x3xf32>
  }
}
