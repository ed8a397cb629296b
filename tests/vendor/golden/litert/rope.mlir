module @IrToHlo {
  func.func @main(%arg0: tensor<1x1x1x3xi32>, %arg1: tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32> {
    %0 = stablehlo.composite "odml.rope" %arg1, %arg0 {composite_attributes = {max_timescale = 1.000000e+04 : f32, min_timescale = 1.000000e+00 : f32, proportion = 1.000000e+00 : f32}, decomposition = @odml.rope.impl} : (tensor<1x2x3x8xf32>, tensor<1x1x1x3xi32>) -> tensor<1x2x3x8xf32>
    return %0 : tensor<1x2x3x8xf32>
  }
  func.func private @odml.rope.impl(%arg0: tensor<1x2x3x8xf32>, %arg1: tensor<1x1x1x3xi32>) -> tensor<1x2x3x8xf32> {
    %cst = stablehlo.constant dense<[1.000000e+00, -9.21034049]> : tensor<2xf32>
    %cst_0 = stablehlo.constant dense<[1.000000e+00, 2.500000e-01]> : tensor<2xf32>
    %cst_1 = stablehlo.constant dense<[0.000000e+00, 1.000000e+00, 2.000000e+00, 3.000000e+00]> : tensor<4xf32>
    %0 = stablehlo.slice %arg0 [0:1, 0:2, 0:3, 0:4] : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x4xf32>
    %1 = stablehlo.convert %arg1 : (tensor<1x1x1x3xi32>) -> tensor<1x1x1x3xf32>
    %2 = stablehlo.reshape %1 : (tensor<1x1x1x3xf32>) -> tensor<3xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<3xf32>) -> tensor<3x4xf32>
    %4 = stablehlo.optimization_barrier %cst_0 : tensor<2xf32>
    %5 = stablehlo.slice %4 [1:2] : (tensor<2xf32>) -> tensor<1xf32>
    %6 = stablehlo.reshape %5 : (tensor<1xf32>) -> tensor<f32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %8 = stablehlo.multiply %7, %cst_1 : tensor<4xf32>
    %9 = stablehlo.optimization_barrier %cst : tensor<2xf32>
    %10 = stablehlo.slice %9 [1:2] : (tensor<2xf32>) -> tensor<1xf32>
    %11 = stablehlo.reshape %10 : (tensor<1xf32>) -> tensor<f32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %13 = stablehlo.multiply %8, %12 : tensor<4xf32>
    %14 = stablehlo.exponential %13 : tensor<4xf32>
    %15 = stablehlo.broadcast_in_dim %14, dims = [1] : (tensor<4xf32>) -> tensor<3x4xf32>
    %16 = stablehlo.multiply %3, %15 : tensor<3x4xf32>
    %17 = stablehlo.cosine %16 : tensor<3x4xf32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [2, 3] : (tensor<3x4xf32>) -> tensor<1x2x3x4xf32>
    %19 = stablehlo.multiply %0, %18 : tensor<1x2x3x4xf32>
    %20 = stablehlo.slice %arg0 [0:1, 0:2, 0:3, 4:8] : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x4xf32>
    %21 = stablehlo.sine %16 : tensor<3x4xf32>
    %22 = stablehlo.broadcast_in_dim %21, dims = [2, 3] : (tensor<3x4xf32>) -> tensor<1x2x3x4xf32>
    %23 = stablehlo.multiply %20, %22 : tensor<1x2x3x4xf32>
    %24 = stablehlo.subtract %19, %23 : tensor<1x2x3x4xf32>
    %25 = stablehlo.multiply %20, %18 : tensor<1x2x3x4xf32>
    %26 = stablehlo.multiply %0, %22 : tensor<1x2x3x4xf32>
    %27 = stablehlo.add %25, %26 : tensor<1x2x3x4xf32>
    %28 = stablehlo.concatenate %24, %27, dim = 3 : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x8xf32>
    return %28 : tensor<1x2x3x8xf32>
  }
}
