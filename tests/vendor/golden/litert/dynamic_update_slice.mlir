module @IrToHlo {
  func.func @main(%arg0: tensor<2xi32>, %arg1: tensor<2x2xf32>, %arg2: tensor<3x5xf32>) -> tensor<3x5xf32> {
    %0 = stablehlo.composite "tfl.dynamic_update_slice" %arg2, %arg1, %arg0 {decomposition = @tfl.dynamic_update_slice.impl} : (tensor<3x5xf32>, tensor<2x2xf32>, tensor<2xi32>) -> tensor<3x5xf32>
    return %0 : tensor<3x5xf32>
  }
  func.func private @tfl.dynamic_update_slice.impl(%arg0: tensor<3x5xf32>, %arg1: tensor<2x2xf32>, %arg2: tensor<2xi32>) -> tensor<3x5xf32> {
    %c = stablehlo.constant dense<0> : tensor<2x2xi64>
    %c_0 = stablehlo.constant dense<[1, 5]> : tensor<2xi64>
    %c_1 = stablehlo.constant dense<[1, 3]> : tensor<2xi32>
    %c_2 = stablehlo.constant dense<[1, 3]> : tensor<2xi64>
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
    %7 = stablehlo.compare LT, %6, %c : (tensor<2x2xi64>, tensor<2x2xi64>) -> tensor<2x2xi1>
    %8 = stablehlo.optimization_barrier %c_2 : tensor<2xi64>
    %9 = stablehlo.slice %8 [1:2] : (tensor<2xi64>) -> tensor<1xi64>
    %10 = stablehlo.reshape %9 : (tensor<1xi64>) -> tensor<i64>
    %11 = stablehlo.broadcast_in_dim %10, dims = [] : (tensor<i64>) -> tensor<2x2xi64>
    %12 = stablehlo.add %6, %11 : tensor<2x2xi64>
    %13 = stablehlo.select %7, %12, %6 : tensor<2x2xi1>, tensor<2x2xi64>
    %14 = stablehlo.reshape %13 : (tensor<2x2xi64>) -> tensor<2x2x1xi64>
    %15 = stablehlo.slice %arg2 [1:2] : (tensor<2xi32>) -> tensor<1xi32>
    %16 = stablehlo.reshape %15 : (tensor<1xi32>) -> tensor<i32>
    %17 = stablehlo.optimization_barrier %c_1 : tensor<2xi32>
    %18 = stablehlo.slice %17 [1:2] : (tensor<2xi32>) -> tensor<1xi32>
    %19 = stablehlo.reshape %18 : (tensor<1xi32>) -> tensor<i32>
    %20 = stablehlo.clamp %c_5, %16, %19 : tensor<i32>
    %21 = stablehlo.convert %20 : (tensor<i32>) -> tensor<i64>
    %22 = stablehlo.broadcast_in_dim %21, dims = [] : (tensor<i64>) -> tensor<2xi64>
    %23 = stablehlo.add %22, %c_3 : tensor<2xi64>
    %24 = stablehlo.broadcast_in_dim %23, dims = [1] : (tensor<2xi64>) -> tensor<2x2xi64>
    %25 = stablehlo.compare LT, %24, %c : (tensor<2x2xi64>, tensor<2x2xi64>) -> tensor<2x2xi1>
    %26 = stablehlo.optimization_barrier %c_0 : tensor<2xi64>
    %27 = stablehlo.slice %26 [1:2] : (tensor<2xi64>) -> tensor<1xi64>
    %28 = stablehlo.reshape %27 : (tensor<1xi64>) -> tensor<i64>
    %29 = stablehlo.broadcast_in_dim %28, dims = [] : (tensor<i64>) -> tensor<2x2xi64>
    %30 = stablehlo.add %24, %29 : tensor<2x2xi64>
    %31 = stablehlo.select %25, %30, %24 : tensor<2x2xi1>, tensor<2x2xi64>
    %32 = stablehlo.reshape %31 : (tensor<2x2xi64>) -> tensor<2x2x1xi64>
    %33 = stablehlo.concatenate %14, %32, dim = 2 : (tensor<2x2x1xi64>, tensor<2x2x1xi64>) -> tensor<2x2x2xi64>
    %34 = "stablehlo.scatter"(%arg0, %33, %arg1) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 2>, unique_indices = false}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      stablehlo.return %arg4 : tensor<f32>
    }) : (tensor<3x5xf32>, tensor<2x2x2xi64>, tensor<2x2xf32>) -> tensor<3x5xf32>
    return %34 : tensor<3x5xf32>
  }
}
