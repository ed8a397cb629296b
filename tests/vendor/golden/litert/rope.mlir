module @IrToHlo {
  func.func @main(%arg0: tensor<3xi32>, %arg1: tensor<1x3x2x8xf32>) -> tensor<1x3x2x8xf32> {
    %0 = stablehlo.composite "odml.rope" %arg1, %arg0 {composite_attributes = {max_timescale = 1.000000e+04 : f32, min_timescale = 1.000000e+00 : f32, proportion = 1.000000e+00 : f32}, decomposition = @odml.rope.impl} : (tensor<1x3x2x8xf32>, tensor<3xi32>) -> tensor<1x3x2x8xf32>
    return %0 : tensor<1x3x2x8xf32>
  }
  func.func private @odml.rope.impl(%arg0: tensor<1x3x2x8xf32>, %arg1: tensor<3xi32>) -> tensor<1x3x2x8xf32> {
    %cst = stablehlo.constant dense<[1.000000e+00, -9.21034049]> : tensor<2xf32>
    %cst_0 = stablehlo.constant dense<[1.000000e+00, 2.500000e-01]> : tensor<2xf32>
    %cst_1 = stablehlo.constant dense<[0.000000e+00, 1.000000e+00, 2.000000e+00, 3.000000e+00]> : tensor<4xf32>
    %0 = stablehlo.slice %arg0 [0:1, 0:3, 0:2, 0:4] : (tensor<1x3x2x8xf32>) -> tensor<1x3x2x4xf32>
    %1 = stablehlo.convert %arg1 : (tensor<3xi32>) -> tensor<3xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<3xf32>) -> tensor<3x4xf32>
    %3 = stablehlo.optimization_barrier %cst_0 : tensor<2xf32>
    %4 = stablehlo.slice %3 [1:2] : (tensor<2xf32>) -> tensor<1xf32>
    %5 = stablehlo.reshape %4 : (tensor<1xf32>) -> tensor<f32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %7 = stablehlo.multiply %6, %cst_1 : tensor<4xf32>
    %8 = stablehlo.optimization_barrier %cst : tensor<2xf32>
    %9 = stablehlo.slice %8 [1:2] : (tensor<2xf32>) -> tensor<1xf32>
    %10 = stablehlo.reshape %9 : (tensor<1xf32>) -> tensor<f32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %12 = stablehlo.multiply %7, %11 : tensor<4xf32>
    %13 = stablehlo.exponential %12 : tensor<4xf32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [1] : (tensor<4xf32>) -> tensor<3x4xf32>
    %15 = stablehlo.multiply %2, %14 : tensor<3x4xf32>
    %16 = stablehlo.reshape %15 : (tensor<3x4xf32>) -> tensor<3x1x4xf32>
    %17 = stablehlo.cosine %16 : tensor<3x1x4xf32>
    %18 = stablehlo.reshape %17 : (tensor<3x1x4xf32>) -> tensor<1x3x4xf32>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 3] : (tensor<1x3x4xf32>) -> tensor<1x3x2x4xf32>
    %20 = stablehlo.multiply %0, %19 : tensor<1x3x2x4xf32>
    %21 = stablehlo.slice %arg0 [0:1, 0:3, 0:2, 4:8] : (tensor<1x3x2x8xf32>) -> tensor<1x3x2x4xf32>
    %22 = stablehlo.sine %16 : tensor<3x1x4xf32>
    %23 = stablehlo.reshape %22 : (tensor<3x1x4xf32>) -> tensor<1x3x4xf32>
    %24 = stablehlo.broadcast_in_dim %23, dims = [0, 1, 3] : (tensor<1x3x4xf32>) -> tensor<1x3x2x4xf32>
    %25 = stablehlo.multiply %21, %24 : tensor<1x3x2x4xf32>
    %26 = stablehlo.subtract %20, %25 : tensor<1x3x2x4xf32>
    %27 = stablehlo.multiply %21, %19 : tensor<1x3x2x4xf32>
    %28 = stablehlo.multiply %0, %24 : tensor<1x3x2x4xf32>
    %29 = stablehlo.add %27, %28 : tensor<1x3x2x4xf32>
    %30 = stablehlo.concatenate %26, %29, dim = 3 : (tensor<1x3x2x4xf32>, tensor<1x3x2x4xf32>) -> tensor<1x3x2x8xf32>
    return %30 : tensor<1x3x2x8xf32>
  }
}
