module @IrToHlo {
  func.func @main(%arg0: tensor<2xi32>, %arg1: tensor<2x2xf32>, %arg2: tensor<3x5xf32>) -> tensor<3x5xf32> {
    %0 = stablehlo.composite "tfl.dynamic_update_slice" %arg2, %arg1, %arg0 {decomposition = @tfl.dynamic_update_slice.impl} : (tensor<3x5xf32>, tensor<2x2xf32>, tensor<2xi32>) -> tensor<3x5xf32>
    return %0 : tensor<3x5xf32>
  }
  func.func private @tfl.dynamic_update_slice.impl(%arg0: tensor<3x5xf32>, %arg1: tensor<2x2xf32>, %arg2: tensor<2xi32>) -> tensor<3x5xf32> {
    %c = stablehlo.constant dense<5> : tensor<2x2xi64>
    %c_0 = stablehlo.constant dense<3> : tensor<2x2xi64>
    %c_1 = stablehlo.constant dense<0> : tensor<2x2xi64>
    %c_2 = stablehlo.constant dense<3> : tensor<i32>
    %c_3 = stablehlo.constant dense<[0, 1]> : tensor<2xi64>
    %c_4 = stablehlo.constant dense<1> : tensor<i32>
    %c_5 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.slice %arg2 [0:1] : (tensor<2xi32>) -> tensor<1xi32>
    %1 = stablehlo.reshape %0 : (tensor<1xi32>) -> tensor<i32>
    %2 = stablehlo.clamp %c_5, %1, %c_4 : tensor<i32>
    %3 = stablehlo.convert %2 : (tensor<i32>) -> tensor<i64>
    %4 = stablehlo.broadcast_in_dim %3, dims = [] : (tensor<i64>) -> tensor<2xi64>
    %5 = stablehlo.add %4, %c_3 : tensor<2xi64>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<2xi64>) -> tensor<2x2xi64>
    %7 = stablehlo.compare LT, %6, %c_1 : (tensor<2x2xi64>, tensor<2x2xi64>) -> tensor<2x2xi1>
    %8 = stablehlo.add %6, %c_0 : tensor<2x2xi64>
    %9 = stablehlo.select %7, %8, %6 : tensor<2x2xi1>, tensor<2x2xi64>
    %10 = stablehlo.reshape %9 : (tensor<2x2xi64>) -> tensor<2x2x1xi64>
    %11 = stablehlo.slice %arg2 [1:2] : (tensor<2xi32>) -> tensor<1xi32>
    %12 = stablehlo.reshape %11 : (tensor<1xi32>) -> tensor<i32>
    %13 = stablehlo.clamp %c_5, %12, %c_2 : tensor<i32>
    %14 = stablehlo.convert %13 : (tensor<i32>) -> tensor<i64>
    %15 = stablehlo.broadcast_in_dim %14, dims = [] : (tensor<i64>) -> tensor<2xi64>
    %16 = stablehlo.add %15, %c_3 : tensor<2xi64>
    %17 = stablehlo.broadcast_in_dim %16, dims = [1] : (tensor<2xi64>) -> tensor<2x2xi64>
    %18 = stablehlo.compare LT, %17, %c_1 : (tensor<2x2xi64>, tensor<2x2xi64>) -> tensor<2x2xi1>
    %19 = stablehlo.add %17, %c : tensor<2x2xi64>
    %20 = stablehlo.select %18, %19, %17 : tensor<2x2xi1>, tensor<2x2xi64>
    %21 = stablehlo.reshape %20 : (tensor<2x2xi64>) -> tensor<2x2x1xi64>
    %22 = stablehlo.concatenate %10, %21, dim = 2 : (tensor<2x2x1xi64>, tensor<2x2x1xi64>) -> tensor<2x2x2xi64>
    %23 = "stablehlo.scatter"(%arg0, %22, %arg1) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 2>, unique_indices = false}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      stablehlo.return %arg4 : tensor<f32>
    }) : (tensor<3x5xf32>, tensor<2x2x2xi64>, tensor<2x2xf32>) -> tensor<3x5xf32>
    return %23 : tensor<3x5xf32>
  }
}
