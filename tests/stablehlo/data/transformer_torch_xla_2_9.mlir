// Printed by torch_xla 2.9.0 (xm.get_stablehlo), unchanged: two transformer blocks, forward.
module @IrToHlo.372 attributes {mhlo.cross_program_prefetches = [], mhlo.input_output_alias = [], mhlo.is_dynamic = false, mhlo.use_auto_spmd_partitioning = false} {
  func.func @main(%arg0: tensor<16xf32>, %arg1: tensor<16x32xf32>, %arg2: tensor<32xf32>, %arg3: tensor<32x16xf32>, %arg4: tensor<16xf32>, %arg5: tensor<16xf32>, %arg6: tensor<16x16xf32>, %arg7: tensor<48xf32>, %arg8: tensor<48x16xf32>, %arg9: tensor<16xf32>, %arg10: tensor<16xf32>, %arg11: tensor<16x32xf32>, %arg12: tensor<32xf32>, %arg13: tensor<32x16xf32>, %arg14: tensor<16xf32>, %arg15: tensor<16xf32>, %arg16: tensor<16x16xf32>, %arg17: tensor<48xf32>, %arg18: tensor<48x16xf32>, %arg19: tensor<16xf32>, %arg20: tensor<2x4x16xf32>, %arg21: tensor<16xf32>, %arg22: tensor<f32>, %arg23: tensor<16xf32>, %arg24: tensor<16xf32>, %arg25: tensor<16xf32>) -> tensor<2x4x16xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<8xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<8xf32>
    %0 = stablehlo.reshape %arg20 : (tensor<2x4x16xf32>) -> tensor<1x8x16xf32>
    %output, %batch_mean, %batch_var = "stablehlo.batch_norm_training"(%0, %cst_0, %cst) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<1x8x16xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<1x8x16xf32>, tensor<8xf32>, tensor<8xf32>)
    %1 = stablehlo.broadcast_in_dim %arg21, dims = [2] : (tensor<16xf32>) -> tensor<2x4x16xf32>
    %2 = stablehlo.reshape %output : (tensor<1x8x16xf32>) -> tensor<2x4x16xf32>
    %3 = stablehlo.broadcast_in_dim %arg19, dims = [2] : (tensor<16xf32>) -> tensor<2x4x16xf32>
    %4 = stablehlo.multiply %2, %3 : tensor<2x4x16xf32>
    %5 = stablehlo.add %1, %4 : tensor<2x4x16xf32>
    %6 = stablehlo.reshape %5 : (tensor<2x4x16xf32>) -> tensor<8x16xf32>
    %7 = stablehlo.transpose %arg18, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[16,48]{0,1}"} : (tensor<48x16xf32>) -> tensor<16x48xf32>
    %8 = stablehlo.dot_general %6, %7, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16xf32>, tensor<16x48xf32>) -> tensor<8x48xf32>
    %9 = stablehlo.reshape %8 : (tensor<8x48xf32>) -> tensor<2x4x48xf32>
    %10 = stablehlo.broadcast_in_dim %arg17, dims = [2] : (tensor<48xf32>) -> tensor<2x4x48xf32>
    %11 = stablehlo.add %9, %10 : tensor<2x4x48xf32>
    %12 = stablehlo.slice %11 [0:2, 0:4, 0:16] : (tensor<2x4x48xf32>) -> tensor<2x4x16xf32>
    %13 = stablehlo.slice %11 [0:2, 0:4, 16:32] : (tensor<2x4x48xf32>) -> tensor<2x4x16xf32>
    %14 = stablehlo.transpose %13, dims = [0, 2, 1] {result_layout = dense<[1, 2, 0]> : tensor<3xindex>, xla_shape = "f32[2,16,4]{1,2,0}"} : (tensor<2x4x16xf32>) -> tensor<2x16x4xf32>
    %15 = stablehlo.dot_general %12, %14, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x4x16xf32>, tensor<2x16x4xf32>) -> tensor<2x4x4xf32>
    %16 = stablehlo.broadcast_in_dim %arg22, dims = [] : (tensor<f32>) -> tensor<2x4x4xf32>
    %17 = stablehlo.multiply %15, %16 : tensor<2x4x4xf32>
    %18 = call @m.181(%17) : (tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
    %19 = stablehlo.slice %11 [0:2, 0:4, 32:48] : (tensor<2x4x48xf32>) -> tensor<2x4x16xf32>
    %20 = stablehlo.dot_general %18, %19, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x4x4xf32>, tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
    %21 = stablehlo.reshape %20 : (tensor<2x4x16xf32>) -> tensor<8x16xf32>
    %22 = stablehlo.transpose %arg16, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[16,16]{0,1}"} : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %23 = stablehlo.dot_general %21, %22, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
    %24 = stablehlo.reshape %23 : (tensor<8x16xf32>) -> tensor<2x4x16xf32>
    %25 = stablehlo.broadcast_in_dim %arg15, dims = [2] : (tensor<16xf32>) -> tensor<2x4x16xf32>
    %26 = stablehlo.add %24, %25 : tensor<2x4x16xf32>
    %27 = stablehlo.add %arg20, %26 : tensor<2x4x16xf32>
    %28 = stablehlo.reshape %27 : (tensor<2x4x16xf32>) -> tensor<1x8x16xf32>
    %output_1, %batch_mean_2, %batch_var_3 = "stablehlo.batch_norm_training"(%28, %cst_0, %cst) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<1x8x16xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<1x8x16xf32>, tensor<8xf32>, tensor<8xf32>)
    %29 = stablehlo.broadcast_in_dim %arg23, dims = [2] : (tensor<16xf32>) -> tensor<2x4x16xf32>
    %30 = stablehlo.reshape %output_1 : (tensor<1x8x16xf32>) -> tensor<2x4x16xf32>
    %31 = stablehlo.broadcast_in_dim %arg14, dims = [2] : (tensor<16xf32>) -> tensor<2x4x16xf32>
    %32 = stablehlo.multiply %30, %31 : tensor<2x4x16xf32>
    %33 = stablehlo.add %29, %32 : tensor<2x4x16xf32>
    %34 = stablehlo.reshape %33 : (tensor<2x4x16xf32>) -> tensor<8x16xf32>
    %35 = stablehlo.transpose %arg13, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[16,32]{0,1}"} : (tensor<32x16xf32>) -> tensor<16x32xf32>
    %36 = stablehlo.dot_general %34, %35, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
    %37 = stablehlo.reshape %36 : (tensor<8x32xf32>) -> tensor<2x4x32xf32>
    %38 = stablehlo.broadcast_in_dim %arg12, dims = [2] : (tensor<32xf32>) -> tensor<2x4x32xf32>
    %39 = stablehlo.add %37, %38 : tensor<2x4x32xf32>
    %40 = call @m.235(%39) : (tensor<2x4x32xf32>) -> tensor<2x4x32xf32>
    %41 = stablehlo.reshape %40 : (tensor<2x4x32xf32>) -> tensor<8x32xf32>
    %42 = stablehlo.transpose %arg11, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[32,16]{0,1}"} : (tensor<16x32xf32>) -> tensor<32x16xf32>
    %43 = stablehlo.dot_general %41, %42, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x32xf32>, tensor<32x16xf32>) -> tensor<8x16xf32>
    %44 = stablehlo.reshape %43 : (tensor<8x16xf32>) -> tensor<2x4x16xf32>
    %45 = stablehlo.broadcast_in_dim %arg10, dims = [2] : (tensor<16xf32>) -> tensor<2x4x16xf32>
    %46 = stablehlo.add %44, %45 : tensor<2x4x16xf32>
    %47 = stablehlo.add %27, %46 : tensor<2x4x16xf32>
    %48 = stablehlo.reshape %47 : (tensor<2x4x16xf32>) -> tensor<1x8x16xf32>
    %output_4, %batch_mean_5, %batch_var_6 = "stablehlo.batch_norm_training"(%48, %cst_0, %cst) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<1x8x16xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<1x8x16xf32>, tensor<8xf32>, tensor<8xf32>)
    %49 = stablehlo.broadcast_in_dim %arg24, dims = [2] : (tensor<16xf32>) -> tensor<2x4x16xf32>
    %50 = stablehlo.reshape %output_4 : (tensor<1x8x16xf32>) -> tensor<2x4x16xf32>
    %51 = stablehlo.broadcast_in_dim %arg9, dims = [2] : (tensor<16xf32>) -> tensor<2x4x16xf32>
    %52 = stablehlo.multiply %50, %51 : tensor<2x4x16xf32>
    %53 = stablehlo.add %49, %52 : tensor<2x4x16xf32>
    %54 = stablehlo.reshape %53 : (tensor<2x4x16xf32>) -> tensor<8x16xf32>
    %55 = stablehlo.transpose %arg8, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[16,48]{0,1}"} : (tensor<48x16xf32>) -> tensor<16x48xf32>
    %56 = stablehlo.dot_general %54, %55, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16xf32>, tensor<16x48xf32>) -> tensor<8x48xf32>
    %57 = stablehlo.reshape %56 : (tensor<8x48xf32>) -> tensor<2x4x48xf32>
    %58 = stablehlo.broadcast_in_dim %arg7, dims = [2] : (tensor<48xf32>) -> tensor<2x4x48xf32>
    %59 = stablehlo.add %57, %58 : tensor<2x4x48xf32>
    %60 = stablehlo.slice %59 [0:2, 0:4, 0:16] : (tensor<2x4x48xf32>) -> tensor<2x4x16xf32>
    %61 = stablehlo.slice %59 [0:2, 0:4, 16:32] : (tensor<2x4x48xf32>) -> tensor<2x4x16xf32>
    %62 = stablehlo.transpose %61, dims = [0, 2, 1] {result_layout = dense<[1, 2, 0]> : tensor<3xindex>, xla_shape = "f32[2,16,4]{1,2,0}"} : (tensor<2x4x16xf32>) -> tensor<2x16x4xf32>
    %63 = stablehlo.dot_general %60, %62, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x4x16xf32>, tensor<2x16x4xf32>) -> tensor<2x4x4xf32>
    %64 = stablehlo.multiply %63, %16 : tensor<2x4x4xf32>
    %65 = call @m.303(%64) : (tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
    %66 = stablehlo.slice %59 [0:2, 0:4, 32:48] : (tensor<2x4x48xf32>) -> tensor<2x4x16xf32>
    %67 = stablehlo.dot_general %65, %66, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x4x4xf32>, tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
    %68 = stablehlo.reshape %67 : (tensor<2x4x16xf32>) -> tensor<8x16xf32>
    %69 = stablehlo.transpose %arg6, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[16,16]{0,1}"} : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %70 = stablehlo.dot_general %68, %69, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
    %71 = stablehlo.reshape %70 : (tensor<8x16xf32>) -> tensor<2x4x16xf32>
    %72 = stablehlo.broadcast_in_dim %arg5, dims = [2] : (tensor<16xf32>) -> tensor<2x4x16xf32>
    %73 = stablehlo.add %71, %72 : tensor<2x4x16xf32>
    %74 = stablehlo.add %47, %73 : tensor<2x4x16xf32>
    %75 = stablehlo.reshape %74 : (tensor<2x4x16xf32>) -> tensor<1x8x16xf32>
    %output_7, %batch_mean_8, %batch_var_9 = "stablehlo.batch_norm_training"(%75, %cst_0, %cst) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<1x8x16xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<1x8x16xf32>, tensor<8xf32>, tensor<8xf32>)
    %76 = stablehlo.broadcast_in_dim %arg25, dims = [2] : (tensor<16xf32>) -> tensor<2x4x16xf32>
    %77 = stablehlo.reshape %output_7 : (tensor<1x8x16xf32>) -> tensor<2x4x16xf32>
    %78 = stablehlo.broadcast_in_dim %arg4, dims = [2] : (tensor<16xf32>) -> tensor<2x4x16xf32>
    %79 = stablehlo.multiply %77, %78 : tensor<2x4x16xf32>
    %80 = stablehlo.add %76, %79 : tensor<2x4x16xf32>
    %81 = stablehlo.reshape %80 : (tensor<2x4x16xf32>) -> tensor<8x16xf32>
    %82 = stablehlo.transpose %arg3, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[16,32]{0,1}"} : (tensor<32x16xf32>) -> tensor<16x32xf32>
    %83 = stablehlo.dot_general %81, %82, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
    %84 = stablehlo.reshape %83 : (tensor<8x32xf32>) -> tensor<2x4x32xf32>
    %85 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<32xf32>) -> tensor<2x4x32xf32>
    %86 = stablehlo.add %84, %85 : tensor<2x4x32xf32>
    %87 = call @m.357(%86) : (tensor<2x4x32xf32>) -> tensor<2x4x32xf32>
    %88 = stablehlo.reshape %87 : (tensor<2x4x32xf32>) -> tensor<8x32xf32>
    %89 = stablehlo.transpose %arg1, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[32,16]{0,1}"} : (tensor<16x32xf32>) -> tensor<32x16xf32>
    %90 = stablehlo.dot_general %88, %89, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x32xf32>, tensor<32x16xf32>) -> tensor<8x16xf32>
    %91 = stablehlo.reshape %90 : (tensor<8x16xf32>) -> tensor<2x4x16xf32>
    %92 = stablehlo.broadcast_in_dim %arg0, dims = [2] : (tensor<16xf32>) -> tensor<2x4x16xf32>
    %93 = stablehlo.add %91, %92 : tensor<2x4x16xf32>
    %94 = stablehlo.add %74, %93 : tensor<2x4x16xf32>
    return %94 : tensor<2x4x16xf32>
  }
  func.func private @m.181(%arg0: tensor<2x4x4xf32>) -> tensor<2x4x4xf32> {
    %0 = stablehlo.composite "ptxla.softmax" %arg0 {composite_attributes = {dim = -1 : i64}, decomposition = @ptxla.softmax.impl.170, version = 1 : i32} : (tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
    return %0 : tensor<2x4x4xf32>
  }
  func.func private @ptxla.softmax.impl.170(%arg0: tensor<2x4x4xf32>) -> tensor<2x4x4xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst_0) applies stablehlo.maximum across dimensions = [2] : (tensor<2x4x4xf32>, tensor<f32>) -> tensor<2x4xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<2x4xf32>) -> tensor<2x4x4xf32>
    %2 = stablehlo.subtract %arg0, %1 : tensor<2x4x4xf32>
    %3 = stablehlo.exponential %2 : tensor<2x4x4xf32>
    %4 = stablehlo.reduce(%3 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<2x4x4xf32>, tensor<f32>) -> tensor<2x4xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<2x4xf32>) -> tensor<2x4x4xf32>
    %6 = stablehlo.divide %3, %5 : tensor<2x4x4xf32>
    return %6 : tensor<2x4x4xf32>
  }
  func.func private @m.235(%arg0: tensor<2x4x32xf32>) -> tensor<2x4x32xf32> {
    %0 = stablehlo.composite "ptxla.gelu" %arg0 {composite_attributes = {approximate = "none"}, decomposition = @ptxla.gelu.impl.222, version = 1 : i32} : (tensor<2x4x32xf32>) -> tensor<2x4x32xf32>
    return %0 : tensor<2x4x32xf32>
  }
  func.func private @ptxla.gelu.impl.222(%arg0: tensor<2x4x32xf32>) -> tensor<2x4x32xf32> {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<2x4x32xf32>
    %cst_0 = stablehlo.constant dense<0.707106769> : tensor<2x4x32xf32>
    %cst_1 = stablehlo.constant dense<5.000000e-01> : tensor<2x4x32xf32>
    %0 = stablehlo.multiply %arg0, %cst_1 : tensor<2x4x32xf32>
    %1 = stablehlo.multiply %arg0, %cst_0 : tensor<2x4x32xf32>
    %2 = stablehlo.custom_call @mhlo.erf(%1) {mhlo.attributes = {}, mhlo.version = 1 : i64} : (tensor<2x4x32xf32>) -> tensor<2x4x32xf32>
    %3 = stablehlo.add %2, %cst : tensor<2x4x32xf32>
    %4 = stablehlo.multiply %0, %3 : tensor<2x4x32xf32>
    return %4 : tensor<2x4x32xf32>
  }
  func.func private @m.303(%arg0: tensor<2x4x4xf32>) -> tensor<2x4x4xf32> {
    %0 = stablehlo.composite "ptxla.softmax" %arg0 {composite_attributes = {dim = -1 : i64}, decomposition = @ptxla.softmax.impl.292, version = 1 : i32} : (tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
    return %0 : tensor<2x4x4xf32>
  }
  func.func private @ptxla.softmax.impl.292(%arg0: tensor<2x4x4xf32>) -> tensor<2x4x4xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst_0) applies stablehlo.maximum across dimensions = [2] : (tensor<2x4x4xf32>, tensor<f32>) -> tensor<2x4xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<2x4xf32>) -> tensor<2x4x4xf32>
    %2 = stablehlo.subtract %arg0, %1 : tensor<2x4x4xf32>
    %3 = stablehlo.exponential %2 : tensor<2x4x4xf32>
    %4 = stablehlo.reduce(%3 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<2x4x4xf32>, tensor<f32>) -> tensor<2x4xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<2x4xf32>) -> tensor<2x4x4xf32>
    %6 = stablehlo.divide %3, %5 : tensor<2x4x4xf32>
    return %6 : tensor<2x4x4xf32>
  }
  func.func private @m.357(%arg0: tensor<2x4x32xf32>) -> tensor<2x4x32xf32> {
    %0 = stablehlo.composite "ptxla.gelu" %arg0 {composite_attributes = {approximate = "none"}, decomposition = @ptxla.gelu.impl.344, version = 1 : i32} : (tensor<2x4x32xf32>) -> tensor<2x4x32xf32>
    return %0 : tensor<2x4x32xf32>
  }
  func.func private @ptxla.gelu.impl.344(%arg0: tensor<2x4x32xf32>) -> tensor<2x4x32xf32> {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<2x4x32xf32>
    %cst_0 = stablehlo.constant dense<0.707106769> : tensor<2x4x32xf32>
    %cst_1 = stablehlo.constant dense<5.000000e-01> : tensor<2x4x32xf32>
    %0 = stablehlo.multiply %arg0, %cst_1 : tensor<2x4x32xf32>
    %1 = stablehlo.multiply %arg0, %cst_0 : tensor<2x4x32xf32>
    %2 = stablehlo.custom_call @mhlo.erf(%1) {mhlo.attributes = {}, mhlo.version = 1 : i64} : (tensor<2x4x32xf32>) -> tensor<2x4x32xf32>
    %3 = stablehlo.add %2, %cst : tensor<2x4x32xf32>
    %4 = stablehlo.multiply %0, %3 : tensor<2x4x32xf32>
    return %4 : tensor<2x4x32xf32>
  }
}
