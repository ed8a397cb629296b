// Printed by torch_xla 2.9.0 (xm.get_stablehlo), unchanged: two transformer blocks, a scalar loss and
// the gradient of every parameter.
module @IrToHlo.826 attributes {mhlo.cross_program_prefetches = [], mhlo.input_output_alias = [], mhlo.is_dynamic = false, mhlo.use_auto_spmd_partitioning = false} {
  func.func @main(%arg0: tensor<16xf32>, %arg1: tensor<16x32xf32>, %arg2: tensor<32xf32>, %arg3: tensor<32x16xf32>, %arg4: tensor<16xf32>, %arg5: tensor<16xf32>, %arg6: tensor<16x16xf32>, %arg7: tensor<48xf32>, %arg8: tensor<48x16xf32>, %arg9: tensor<16xf32>, %arg10: tensor<16xf32>, %arg11: tensor<16x32xf32>, %arg12: tensor<32xf32>, %arg13: tensor<32x16xf32>, %arg14: tensor<16xf32>, %arg15: tensor<16xf32>, %arg16: tensor<16x16xf32>, %arg17: tensor<48xf32>, %arg18: tensor<48x16xf32>, %arg19: tensor<16xf32>, %arg20: tensor<2x4x16xf32>, %arg21: tensor<16xf32>, %arg22: tensor<f32>, %arg23: tensor<16xf32>, %arg24: tensor<16xf32>, %arg25: tensor<16xf32>, %arg26: tensor<f32>, %arg27: tensor<f32>) -> (tensor<f32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<48x16xf32>, tensor<48xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<32x16xf32>, tensor<32xf32>, tensor<16x32xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<48x16xf32>, tensor<48xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<32x16xf32>, tensor<32xf32>, tensor<16x32xf32>, tensor<16xf32>) {
    %cst = stablehlo.constant dense<7.812500e-03> : tensor<f32>
    %cst_0 = stablehlo.constant dense<2.000000e+00> : tensor<2x4x16xf32>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<2x4x16xf32>
    %cst_2 = stablehlo.constant dense<9.99999974E-6> : tensor<8xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<8xf32>
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<8xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reshape %arg20 : (tensor<2x4x16xf32>) -> tensor<1x8x16xf32>
    %output, %batch_mean, %batch_var = "stablehlo.batch_norm_training"(%0, %cst_4, %cst_3) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<1x8x16xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<1x8x16xf32>, tensor<8xf32>, tensor<8xf32>)
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
    %18 = call @m.182(%17) : (tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
    %19 = stablehlo.slice %11 [0:2, 0:4, 32:48] : (tensor<2x4x48xf32>) -> tensor<2x4x16xf32>
    %20 = stablehlo.dot_general %18, %19, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x4x4xf32>, tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
    %21 = stablehlo.reshape %20 : (tensor<2x4x16xf32>) -> tensor<8x16xf32>
    %22 = stablehlo.transpose %arg16, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[16,16]{0,1}"} : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %23 = stablehlo.dot_general %21, %22, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
    %24 = stablehlo.reshape %23 : (tensor<8x16xf32>) -> tensor<2x4x16xf32>
    %25 = stablehlo.broadcast_in_dim %arg15, dims = [2] : (tensor<16xf32>) -> tensor<2x4x16xf32>
    %26 = stablehlo.add %24, %25 : tensor<2x4x16xf32>
    %27 = stablehlo.add %arg20, %26 : tensor<2x4x16xf32>
    %28 = stablehlo.broadcast_in_dim %arg23, dims = [2] : (tensor<16xf32>) -> tensor<2x4x16xf32>
    %29 = stablehlo.reshape %27 : (tensor<2x4x16xf32>) -> tensor<1x8x16xf32>
    %output_6, %batch_mean_7, %batch_var_8 = "stablehlo.batch_norm_training"(%29, %cst_4, %cst_3) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<1x8x16xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<1x8x16xf32>, tensor<8xf32>, tensor<8xf32>)
    %30 = stablehlo.reshape %output_6 : (tensor<1x8x16xf32>) -> tensor<2x4x16xf32>
    %31 = stablehlo.broadcast_in_dim %arg14, dims = [2] : (tensor<16xf32>) -> tensor<2x4x16xf32>
    %32 = stablehlo.multiply %30, %31 : tensor<2x4x16xf32>
    %33 = stablehlo.add %28, %32 : tensor<2x4x16xf32>
    %34 = stablehlo.reshape %33 : (tensor<2x4x16xf32>) -> tensor<8x16xf32>
    %35 = stablehlo.transpose %arg13, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[16,32]{0,1}"} : (tensor<32x16xf32>) -> tensor<16x32xf32>
    %36 = stablehlo.dot_general %34, %35, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
    %37 = stablehlo.reshape %36 : (tensor<8x32xf32>) -> tensor<2x4x32xf32>
    %38 = stablehlo.broadcast_in_dim %arg12, dims = [2] : (tensor<32xf32>) -> tensor<2x4x32xf32>
    %39 = stablehlo.add %37, %38 : tensor<2x4x32xf32>
    %40 = call @m.236(%39) : (tensor<2x4x32xf32>) -> tensor<2x4x32xf32>
    %41 = stablehlo.reshape %40 : (tensor<2x4x32xf32>) -> tensor<8x32xf32>
    %42 = stablehlo.transpose %arg11, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[32,16]{0,1}"} : (tensor<16x32xf32>) -> tensor<32x16xf32>
    %43 = stablehlo.dot_general %41, %42, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x32xf32>, tensor<32x16xf32>) -> tensor<8x16xf32>
    %44 = stablehlo.reshape %43 : (tensor<8x16xf32>) -> tensor<2x4x16xf32>
    %45 = stablehlo.broadcast_in_dim %arg10, dims = [2] : (tensor<16xf32>) -> tensor<2x4x16xf32>
    %46 = stablehlo.add %44, %45 : tensor<2x4x16xf32>
    %47 = stablehlo.add %27, %46 : tensor<2x4x16xf32>
    %48 = stablehlo.broadcast_in_dim %arg24, dims = [2] : (tensor<16xf32>) -> tensor<2x4x16xf32>
    %49 = stablehlo.reshape %47 : (tensor<2x4x16xf32>) -> tensor<1x8x16xf32>
    %output_9, %batch_mean_10, %batch_var_11 = "stablehlo.batch_norm_training"(%49, %cst_4, %cst_3) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<1x8x16xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<1x8x16xf32>, tensor<8xf32>, tensor<8xf32>)
    %50 = stablehlo.reshape %output_9 : (tensor<1x8x16xf32>) -> tensor<2x4x16xf32>
    %51 = stablehlo.broadcast_in_dim %arg9, dims = [2] : (tensor<16xf32>) -> tensor<2x4x16xf32>
    %52 = stablehlo.multiply %50, %51 : tensor<2x4x16xf32>
    %53 = stablehlo.add %48, %52 : tensor<2x4x16xf32>
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
    %65 = call @m.304(%64) : (tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
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
    %output_12, %batch_mean_13, %batch_var_14 = "stablehlo.batch_norm_training"(%75, %cst_4, %cst_3) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<1x8x16xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<1x8x16xf32>, tensor<8xf32>, tensor<8xf32>)
    %76 = stablehlo.add %batch_var_14, %cst_2 : tensor<8xf32>
    %77 = stablehlo.rsqrt %76 : tensor<8xf32>
    %78 = stablehlo.divide %cst_4, %77 : tensor<8xf32>
    %79 = stablehlo.multiply %78, %78 : tensor<8xf32>
    %80 = stablehlo.subtract %79, %cst_2 : tensor<8xf32>
    %81 = stablehlo.broadcast_in_dim %arg27, dims = [] : (tensor<f32>) -> tensor<2x4x16xf32>
    %82 = stablehlo.divide %cst_1, %81 : tensor<2x4x16xf32>
    %83 = stablehlo.broadcast_in_dim %arg25, dims = [2] : (tensor<16xf32>) -> tensor<2x4x16xf32>
    %84 = stablehlo.reshape %output_12 : (tensor<1x8x16xf32>) -> tensor<2x4x16xf32>
    %85 = stablehlo.broadcast_in_dim %arg4, dims = [2] : (tensor<16xf32>) -> tensor<2x4x16xf32>
    %86 = stablehlo.multiply %84, %85 : tensor<2x4x16xf32>
    %87 = stablehlo.add %83, %86 : tensor<2x4x16xf32>
    %88 = stablehlo.reshape %87 : (tensor<2x4x16xf32>) -> tensor<8x16xf32>
    %89 = stablehlo.transpose %arg3, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[16,32]{0,1}"} : (tensor<32x16xf32>) -> tensor<16x32xf32>
    %90 = stablehlo.dot_general %88, %89, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
    %91 = stablehlo.reshape %90 : (tensor<8x32xf32>) -> tensor<2x4x32xf32>
    %92 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<32xf32>) -> tensor<2x4x32xf32>
    %93 = stablehlo.add %91, %92 : tensor<2x4x32xf32>
    %94 = call @m.358(%93) : (tensor<2x4x32xf32>) -> tensor<2x4x32xf32>
    %95 = stablehlo.reshape %94 : (tensor<2x4x32xf32>) -> tensor<8x32xf32>
    %96 = stablehlo.transpose %arg1, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[32,16]{0,1}"} : (tensor<16x32xf32>) -> tensor<32x16xf32>
    %97 = stablehlo.dot_general %95, %96, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x32xf32>, tensor<32x16xf32>) -> tensor<8x16xf32>
    %98 = stablehlo.reshape %97 : (tensor<8x16xf32>) -> tensor<2x4x16xf32>
    %99 = stablehlo.broadcast_in_dim %arg0, dims = [2] : (tensor<16xf32>) -> tensor<2x4x16xf32>
    %100 = stablehlo.add %98, %99 : tensor<2x4x16xf32>
    %101 = stablehlo.add %74, %100 : tensor<2x4x16xf32>
    %102 = stablehlo.power %101, %cst_1 : tensor<2x4x16xf32>
    %103 = stablehlo.broadcast_in_dim %arg26, dims = [] : (tensor<f32>) -> tensor<2x4x16xf32>
    %104 = stablehlo.multiply %102, %103 : tensor<2x4x16xf32>
    %105 = stablehlo.multiply %82, %104 : tensor<2x4x16xf32>
    %106 = stablehlo.reshape %105 : (tensor<2x4x16xf32>) -> tensor<8x16xf32>
    %107 = stablehlo.dot_general %106, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
    %108 = stablehlo.reshape %107 : (tensor<8x32xf32>) -> tensor<2x4x32xf32>
    %109 = call @m.473(%108, %93) : (tensor<2x4x32xf32>, tensor<2x4x32xf32>) -> tensor<2x4x32xf32>
    %110 = stablehlo.reshape %109 : (tensor<2x4x32xf32>) -> tensor<8x32xf32>
    %111 = stablehlo.dot_general %110, %arg3, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x32xf32>, tensor<32x16xf32>) -> tensor<8x16xf32>
    %112 = stablehlo.reshape %111 : (tensor<8x16xf32>) -> tensor<2x4x16xf32>
    %113 = stablehlo.multiply %112, %85 : tensor<2x4x16xf32>
    %114 = stablehlo.reshape %113 : (tensor<2x4x16xf32>) -> tensor<1x8x16xf32>
    %grad_operand, %grad_scale, %grad_offset = "stablehlo.batch_norm_grad"(%75, %cst_4, %batch_mean_13, %80, %114) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<1x8x16xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<1x8x16xf32>) -> (tensor<1x8x16xf32>, tensor<8xf32>, tensor<8xf32>)
    %115 = stablehlo.add %batch_var_11, %cst_2 : tensor<8xf32>
    %116 = stablehlo.rsqrt %115 : tensor<8xf32>
    %117 = stablehlo.divide %cst_4, %116 : tensor<8xf32>
    %118 = stablehlo.multiply %117, %117 : tensor<8xf32>
    %119 = stablehlo.subtract %118, %cst_2 : tensor<8xf32>
    %120 = stablehlo.reshape %grad_operand : (tensor<1x8x16xf32>) -> tensor<2x4x16xf32>
    %121 = stablehlo.add %105, %120 : tensor<2x4x16xf32>
    %122 = stablehlo.reshape %121 : (tensor<2x4x16xf32>) -> tensor<8x16xf32>
    %123 = stablehlo.dot_general %122, %arg6, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
    %124 = stablehlo.reshape %123 : (tensor<8x16xf32>) -> tensor<2x4x16xf32>
    %125 = stablehlo.transpose %66, dims = [0, 2, 1] {result_layout = dense<[1, 2, 0]> : tensor<3xindex>, xla_shape = "f32[2,16,4]{1,2,0}"} : (tensor<2x4x16xf32>) -> tensor<2x16x4xf32>
    %126 = stablehlo.dot_general %124, %125, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x4x16xf32>, tensor<2x16x4xf32>) -> tensor<2x4x4xf32>
    %127 = call @m.519(%126, %65) : (tensor<2x4x4xf32>, tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
    %128 = stablehlo.multiply %127, %16 : tensor<2x4x4xf32>
    %129 = stablehlo.dot_general %128, %61, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x4x4xf32>, tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
    %130 = stablehlo.transpose %60, dims = [0, 2, 1] {result_layout = dense<[1, 2, 0]> : tensor<3xindex>, xla_shape = "f32[2,16,4]{1,2,0}"} : (tensor<2x4x16xf32>) -> tensor<2x16x4xf32>
    %131 = stablehlo.dot_general %130, %128, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x16x4xf32>, tensor<2x4x4xf32>) -> tensor<2x16x4xf32>
    %132 = stablehlo.transpose %131, dims = [0, 2, 1] {result_layout = dense<[1, 2, 0]> : tensor<3xindex>, xla_shape = "f32[2,4,16]{1,2,0}"} : (tensor<2x16x4xf32>) -> tensor<2x4x16xf32>
    %133 = stablehlo.transpose %65, dims = [0, 2, 1] {result_layout = dense<[1, 2, 0]> : tensor<3xindex>, xla_shape = "f32[2,4,4]{1,2,0}"} : (tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
    %134 = stablehlo.dot_general %133, %124, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x4x4xf32>, tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
    %135 = stablehlo.concatenate %129, %132, %134, dim = 2 : (tensor<2x4x16xf32>, tensor<2x4x16xf32>, tensor<2x4x16xf32>) -> tensor<2x4x48xf32>
    %136 = stablehlo.reshape %135 : (tensor<2x4x48xf32>) -> tensor<8x48xf32>
    %137 = stablehlo.dot_general %136, %arg8, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x48xf32>, tensor<48x16xf32>) -> tensor<8x16xf32>
    %138 = stablehlo.reshape %137 : (tensor<8x16xf32>) -> tensor<2x4x16xf32>
    %139 = stablehlo.multiply %138, %51 : tensor<2x4x16xf32>
    %140 = stablehlo.reshape %139 : (tensor<2x4x16xf32>) -> tensor<1x8x16xf32>
    %grad_operand_15, %grad_scale_16, %grad_offset_17 = "stablehlo.batch_norm_grad"(%49, %cst_4, %batch_mean_10, %119, %140) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<1x8x16xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<1x8x16xf32>) -> (tensor<1x8x16xf32>, tensor<8xf32>, tensor<8xf32>)
    %141 = stablehlo.add %batch_var_8, %cst_2 : tensor<8xf32>
    %142 = stablehlo.rsqrt %141 : tensor<8xf32>
    %143 = stablehlo.divide %cst_4, %142 : tensor<8xf32>
    %144 = stablehlo.multiply %143, %143 : tensor<8xf32>
    %145 = stablehlo.subtract %144, %cst_2 : tensor<8xf32>
    %146 = stablehlo.reshape %grad_operand_15 : (tensor<1x8x16xf32>) -> tensor<2x4x16xf32>
    %147 = stablehlo.add %121, %146 : tensor<2x4x16xf32>
    %148 = stablehlo.reshape %147 : (tensor<2x4x16xf32>) -> tensor<8x16xf32>
    %149 = stablehlo.dot_general %148, %arg11, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
    %150 = stablehlo.reshape %149 : (tensor<8x32xf32>) -> tensor<2x4x32xf32>
    %151 = call @m.582(%150, %39) : (tensor<2x4x32xf32>, tensor<2x4x32xf32>) -> tensor<2x4x32xf32>
    %152 = stablehlo.reshape %151 : (tensor<2x4x32xf32>) -> tensor<8x32xf32>
    %153 = stablehlo.dot_general %152, %arg13, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x32xf32>, tensor<32x16xf32>) -> tensor<8x16xf32>
    %154 = stablehlo.reshape %153 : (tensor<8x16xf32>) -> tensor<2x4x16xf32>
    %155 = stablehlo.multiply %154, %31 : tensor<2x4x16xf32>
    %156 = stablehlo.reshape %155 : (tensor<2x4x16xf32>) -> tensor<1x8x16xf32>
    %grad_operand_18, %grad_scale_19, %grad_offset_20 = "stablehlo.batch_norm_grad"(%29, %cst_4, %batch_mean_7, %145, %156) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<1x8x16xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<1x8x16xf32>) -> (tensor<1x8x16xf32>, tensor<8xf32>, tensor<8xf32>)
    %157 = stablehlo.power %101, %cst_0 : tensor<2x4x16xf32>
    %158 = stablehlo.reduce(%157 init: %cst_5) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x4x16xf32>, tensor<f32>) -> tensor<f32>
    %159 = stablehlo.multiply %158, %cst : tensor<f32>
    %160 = stablehlo.reshape %grad_operand_18 : (tensor<1x8x16xf32>) -> tensor<2x4x16xf32>
    %161 = stablehlo.add %147, %160 : tensor<2x4x16xf32>
    %162 = stablehlo.reshape %161 : (tensor<2x4x16xf32>) -> tensor<8x16xf32>
    %163 = stablehlo.dot_general %162, %arg16, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
    %164 = stablehlo.reshape %163 : (tensor<8x16xf32>) -> tensor<2x4x16xf32>
    %165 = stablehlo.transpose %19, dims = [0, 2, 1] {result_layout = dense<[1, 2, 0]> : tensor<3xindex>, xla_shape = "f32[2,16,4]{1,2,0}"} : (tensor<2x4x16xf32>) -> tensor<2x16x4xf32>
    %166 = stablehlo.dot_general %164, %165, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x4x16xf32>, tensor<2x16x4xf32>) -> tensor<2x4x4xf32>
    %167 = call @m.628(%166, %18) : (tensor<2x4x4xf32>, tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
    %168 = stablehlo.multiply %167, %16 : tensor<2x4x4xf32>
    %169 = stablehlo.dot_general %168, %13, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x4x4xf32>, tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
    %170 = stablehlo.transpose %12, dims = [0, 2, 1] {result_layout = dense<[1, 2, 0]> : tensor<3xindex>, xla_shape = "f32[2,16,4]{1,2,0}"} : (tensor<2x4x16xf32>) -> tensor<2x16x4xf32>
    %171 = stablehlo.dot_general %170, %168, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x16x4xf32>, tensor<2x4x4xf32>) -> tensor<2x16x4xf32>
    %172 = stablehlo.transpose %171, dims = [0, 2, 1] {result_layout = dense<[1, 2, 0]> : tensor<3xindex>, xla_shape = "f32[2,4,16]{1,2,0}"} : (tensor<2x16x4xf32>) -> tensor<2x4x16xf32>
    %173 = stablehlo.transpose %18, dims = [0, 2, 1] {result_layout = dense<[1, 2, 0]> : tensor<3xindex>, xla_shape = "f32[2,4,4]{1,2,0}"} : (tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
    %174 = stablehlo.dot_general %173, %164, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x4x4xf32>, tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
    %175 = stablehlo.concatenate %169, %172, %174, dim = 2 : (tensor<2x4x16xf32>, tensor<2x4x16xf32>, tensor<2x4x16xf32>) -> tensor<2x4x48xf32>
    %176 = stablehlo.reshape %175 : (tensor<2x4x48xf32>) -> tensor<8x48xf32>
    %177 = stablehlo.dot_general %176, %arg18, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x48xf32>, tensor<48x16xf32>) -> tensor<8x16xf32>
    %178 = stablehlo.reshape %177 : (tensor<8x16xf32>) -> tensor<2x4x16xf32>
    %179 = stablehlo.multiply %178, %2 : tensor<2x4x16xf32>
    %180 = stablehlo.reduce(%179 init: %cst_5) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4x16xf32>, tensor<f32>) -> tensor<16xf32>
    %181 = stablehlo.reduce(%178 init: %cst_5) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4x16xf32>, tensor<f32>) -> tensor<16xf32>
    %182 = stablehlo.multiply %154, %30 : tensor<2x4x16xf32>
    %183 = stablehlo.reduce(%182 init: %cst_5) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4x16xf32>, tensor<f32>) -> tensor<16xf32>
    %184 = stablehlo.reduce(%154 init: %cst_5) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4x16xf32>, tensor<f32>) -> tensor<16xf32>
    %185 = stablehlo.transpose %6, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[16,8]{0,1}"} : (tensor<8x16xf32>) -> tensor<16x8xf32>
    %186 = stablehlo.dot_general %185, %176, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x8xf32>, tensor<8x48xf32>) -> tensor<16x48xf32>
    %187 = stablehlo.transpose %186, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[48,16]{0,1}"} : (tensor<16x48xf32>) -> tensor<48x16xf32>
    %188 = stablehlo.reduce(%175 init: %cst_5) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4x48xf32>, tensor<f32>) -> tensor<48xf32>
    %189 = stablehlo.transpose %21, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[16,8]{0,1}"} : (tensor<8x16xf32>) -> tensor<16x8xf32>
    %190 = stablehlo.dot_general %189, %162, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x8xf32>, tensor<8x16xf32>) -> tensor<16x16xf32>
    %191 = stablehlo.transpose %190, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[16,16]{0,1}"} : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %192 = stablehlo.reduce(%161 init: %cst_5) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4x16xf32>, tensor<f32>) -> tensor<16xf32>
    %193 = stablehlo.transpose %34, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[16,8]{0,1}"} : (tensor<8x16xf32>) -> tensor<16x8xf32>
    %194 = stablehlo.dot_general %193, %152, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x8xf32>, tensor<8x32xf32>) -> tensor<16x32xf32>
    %195 = stablehlo.transpose %194, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[32,16]{0,1}"} : (tensor<16x32xf32>) -> tensor<32x16xf32>
    %196 = stablehlo.reduce(%151 init: %cst_5) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4x32xf32>, tensor<f32>) -> tensor<32xf32>
    %197 = stablehlo.transpose %41, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[32,8]{0,1}"} : (tensor<8x32xf32>) -> tensor<32x8xf32>
    %198 = stablehlo.dot_general %197, %148, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x8xf32>, tensor<8x16xf32>) -> tensor<32x16xf32>
    %199 = stablehlo.transpose %198, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[16,32]{0,1}"} : (tensor<32x16xf32>) -> tensor<16x32xf32>
    %200 = stablehlo.reduce(%147 init: %cst_5) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4x16xf32>, tensor<f32>) -> tensor<16xf32>
    %201 = stablehlo.multiply %138, %50 : tensor<2x4x16xf32>
    %202 = stablehlo.reduce(%201 init: %cst_5) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4x16xf32>, tensor<f32>) -> tensor<16xf32>
    %203 = stablehlo.reduce(%138 init: %cst_5) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4x16xf32>, tensor<f32>) -> tensor<16xf32>
    %204 = stablehlo.multiply %112, %84 : tensor<2x4x16xf32>
    %205 = stablehlo.reduce(%204 init: %cst_5) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4x16xf32>, tensor<f32>) -> tensor<16xf32>
    %206 = stablehlo.reduce(%112 init: %cst_5) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4x16xf32>, tensor<f32>) -> tensor<16xf32>
    %207 = stablehlo.transpose %54, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[16,8]{0,1}"} : (tensor<8x16xf32>) -> tensor<16x8xf32>
    %208 = stablehlo.dot_general %207, %136, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x8xf32>, tensor<8x48xf32>) -> tensor<16x48xf32>
    %209 = stablehlo.transpose %208, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[48,16]{0,1}"} : (tensor<16x48xf32>) -> tensor<48x16xf32>
    %210 = stablehlo.reduce(%135 init: %cst_5) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4x48xf32>, tensor<f32>) -> tensor<48xf32>
    %211 = stablehlo.transpose %68, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[16,8]{0,1}"} : (tensor<8x16xf32>) -> tensor<16x8xf32>
    %212 = stablehlo.dot_general %211, %122, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x8xf32>, tensor<8x16xf32>) -> tensor<16x16xf32>
    %213 = stablehlo.transpose %212, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[16,16]{0,1}"} : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %214 = stablehlo.reduce(%121 init: %cst_5) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4x16xf32>, tensor<f32>) -> tensor<16xf32>
    %215 = stablehlo.transpose %88, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[16,8]{0,1}"} : (tensor<8x16xf32>) -> tensor<16x8xf32>
    %216 = stablehlo.dot_general %215, %110, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x8xf32>, tensor<8x32xf32>) -> tensor<16x32xf32>
    %217 = stablehlo.transpose %216, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[32,16]{0,1}"} : (tensor<16x32xf32>) -> tensor<32x16xf32>
    %218 = stablehlo.reduce(%109 init: %cst_5) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4x32xf32>, tensor<f32>) -> tensor<32xf32>
    %219 = stablehlo.transpose %95, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[32,8]{0,1}"} : (tensor<8x32xf32>) -> tensor<32x8xf32>
    %220 = stablehlo.dot_general %219, %106, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x8xf32>, tensor<8x16xf32>) -> tensor<32x16xf32>
    %221 = stablehlo.transpose %220, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[16,32]{0,1}"} : (tensor<32x16xf32>) -> tensor<16x32xf32>
    %222 = stablehlo.reduce(%105 init: %cst_5) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4x16xf32>, tensor<f32>) -> tensor<16xf32>
    return %159, %180, %181, %183, %184, %187, %188, %191, %192, %195, %196, %199, %200, %202, %203, %205, %206, %209, %210, %213, %214, %217, %218, %221, %222 : tensor<f32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<48x16xf32>, tensor<48xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<32x16xf32>, tensor<32xf32>, tensor<16x32xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<48x16xf32>, tensor<48xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<32x16xf32>, tensor<32xf32>, tensor<16x32xf32>, tensor<16xf32>
  }
  func.func private @m.182(%arg0: tensor<2x4x4xf32>) -> tensor<2x4x4xf32> {
    %0 = stablehlo.composite "ptxla.softmax" %arg0 {composite_attributes = {dim = -1 : i64}, decomposition = @ptxla.softmax.impl.171, version = 1 : i32} : (tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
    return %0 : tensor<2x4x4xf32>
  }
  func.func private @ptxla.softmax.impl.171(%arg0: tensor<2x4x4xf32>) -> tensor<2x4x4xf32> {
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
  func.func private @m.236(%arg0: tensor<2x4x32xf32>) -> tensor<2x4x32xf32> {
    %0 = stablehlo.composite "ptxla.gelu" %arg0 {composite_attributes = {approximate = "none"}, decomposition = @ptxla.gelu.impl.223, version = 1 : i32} : (tensor<2x4x32xf32>) -> tensor<2x4x32xf32>
    return %0 : tensor<2x4x32xf32>
  }
  func.func private @ptxla.gelu.impl.223(%arg0: tensor<2x4x32xf32>) -> tensor<2x4x32xf32> {
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
  func.func private @m.304(%arg0: tensor<2x4x4xf32>) -> tensor<2x4x4xf32> {
    %0 = stablehlo.composite "ptxla.softmax" %arg0 {composite_attributes = {dim = -1 : i64}, decomposition = @ptxla.softmax.impl.293, version = 1 : i32} : (tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
    return %0 : tensor<2x4x4xf32>
  }
  func.func private @ptxla.softmax.impl.293(%arg0: tensor<2x4x4xf32>) -> tensor<2x4x4xf32> {
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
  func.func private @m.358(%arg0: tensor<2x4x32xf32>) -> tensor<2x4x32xf32> {
    %0 = stablehlo.composite "ptxla.gelu" %arg0 {composite_attributes = {approximate = "none"}, decomposition = @ptxla.gelu.impl.345, version = 1 : i32} : (tensor<2x4x32xf32>) -> tensor<2x4x32xf32>
    return %0 : tensor<2x4x32xf32>
  }
  func.func private @ptxla.gelu.impl.345(%arg0: tensor<2x4x32xf32>) -> tensor<2x4x32xf32> {
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
  func.func private @m.473(%arg0: tensor<2x4x32xf32>, %arg1: tensor<2x4x32xf32>) -> tensor<2x4x32xf32> {
    %0 = stablehlo.composite "ptxla.gelu_backward" %arg0, %arg1 {composite_attributes = {approximate = "none"}, decomposition = @ptxla.gelu_backward.impl.447, version = 1 : i32} : (tensor<2x4x32xf32>, tensor<2x4x32xf32>) -> tensor<2x4x32xf32>
    return %0 : tensor<2x4x32xf32>
  }
  func.func private @ptxla.gelu_backward.impl.447(%arg0: tensor<2x4x32xf32>, %arg1: tensor<2x4x32xf32>) -> tensor<2x4x32xf32> {
    %cst = stablehlo.constant dense<0.398942292> : tensor<2x4x32xf32>
    %cst_0 = stablehlo.constant dense<-5.000000e-01> : tensor<2x4x32xf32>
    %cst_1 = stablehlo.constant dense<5.000000e-01> : tensor<2x4x32xf32>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<2x4x32xf32>
    %cst_3 = stablehlo.constant dense<0.707106769> : tensor<2x4x32xf32>
    %0 = stablehlo.multiply %arg1, %cst_3 : tensor<2x4x32xf32>
    %1 = stablehlo.custom_call @mhlo.erf(%0) {mhlo.attributes = {}, mhlo.version = 1 : i64} : (tensor<2x4x32xf32>) -> tensor<2x4x32xf32>
    %2 = stablehlo.add %1, %cst_2 : tensor<2x4x32xf32>
    %3 = stablehlo.multiply %2, %cst_1 : tensor<2x4x32xf32>
    %4 = stablehlo.multiply %arg1, %arg1 : tensor<2x4x32xf32>
    %5 = stablehlo.multiply %4, %cst_0 : tensor<2x4x32xf32>
    %6 = stablehlo.exponential %5 : tensor<2x4x32xf32>
    %7 = stablehlo.multiply %arg1, %6 : tensor<2x4x32xf32>
    %8 = stablehlo.multiply %7, %cst : tensor<2x4x32xf32>
    %9 = stablehlo.add %3, %8 : tensor<2x4x32xf32>
    %10 = stablehlo.multiply %arg0, %9 : tensor<2x4x32xf32>
    return %10 : tensor<2x4x32xf32>
  }
  func.func private @m.519(%arg0: tensor<2x4x4xf32>, %arg1: tensor<2x4x4xf32>) -> tensor<2x4x4xf32> {
    %0 = stablehlo.composite "ptxla.softmax_backward" %arg0, %arg1 {composite_attributes = {dim = -1 : i64}, decomposition = @ptxla.softmax_backward.impl.510, version = 1 : i32} : (tensor<2x4x4xf32>, tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
    return %0 : tensor<2x4x4xf32>
  }
  func.func private @ptxla.softmax_backward.impl.510(%arg0: tensor<2x4x4xf32>, %arg1: tensor<2x4x4xf32>) -> tensor<2x4x4xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.multiply %arg0, %arg1 : tensor<2x4x4xf32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<2x4x4xf32>, tensor<f32>) -> tensor<2x4xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<2x4xf32>) -> tensor<2x4x4xf32>
    %3 = stablehlo.subtract %arg0, %2 : tensor<2x4x4xf32>
    %4 = stablehlo.multiply %arg1, %3 : tensor<2x4x4xf32>
    return %4 : tensor<2x4x4xf32>
  }
  func.func private @m.582(%arg0: tensor<2x4x32xf32>, %arg1: tensor<2x4x32xf32>) -> tensor<2x4x32xf32> {
    %0 = stablehlo.composite "ptxla.gelu_backward" %arg0, %arg1 {composite_attributes = {approximate = "none"}, decomposition = @ptxla.gelu_backward.impl.556, version = 1 : i32} : (tensor<2x4x32xf32>, tensor<2x4x32xf32>) -> tensor<2x4x32xf32>
    return %0 : tensor<2x4x32xf32>
  }
  func.func private @ptxla.gelu_backward.impl.556(%arg0: tensor<2x4x32xf32>, %arg1: tensor<2x4x32xf32>) -> tensor<2x4x32xf32> {
    %cst = stablehlo.constant dense<0.398942292> : tensor<2x4x32xf32>
    %cst_0 = stablehlo.constant dense<-5.000000e-01> : tensor<2x4x32xf32>
    %cst_1 = stablehlo.constant dense<5.000000e-01> : tensor<2x4x32xf32>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<2x4x32xf32>
    %cst_3 = stablehlo.constant dense<0.707106769> : tensor<2x4x32xf32>
    %0 = stablehlo.multiply %arg1, %cst_3 : tensor<2x4x32xf32>
    %1 = stablehlo.custom_call @mhlo.erf(%0) {mhlo.attributes = {}, mhlo.version = 1 : i64} : (tensor<2x4x32xf32>) -> tensor<2x4x32xf32>
    %2 = stablehlo.add %1, %cst_2 : tensor<2x4x32xf32>
    %3 = stablehlo.multiply %2, %cst_1 : tensor<2x4x32xf32>
    %4 = stablehlo.multiply %arg1, %arg1 : tensor<2x4x32xf32>
    %5 = stablehlo.multiply %4, %cst_0 : tensor<2x4x32xf32>
    %6 = stablehlo.exponential %5 : tensor<2x4x32xf32>
    %7 = stablehlo.multiply %arg1, %6 : tensor<2x4x32xf32>
    %8 = stablehlo.multiply %7, %cst : tensor<2x4x32xf32>
    %9 = stablehlo.add %3, %8 : tensor<2x4x32xf32>
    %10 = stablehlo.multiply %arg0, %9 : tensor<2x4x32xf32>
    return %10 : tensor<2x4x32xf32>
  }
  func.func private @m.628(%arg0: tensor<2x4x4xf32>, %arg1: tensor<2x4x4xf32>) -> tensor<2x4x4xf32> {
    %0 = stablehlo.composite "ptxla.softmax_backward" %arg0, %arg1 {composite_attributes = {dim = -1 : i64}, decomposition = @ptxla.softmax_backward.impl.619, version = 1 : i32} : (tensor<2x4x4xf32>, tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
    return %0 : tensor<2x4x4xf32>
  }
  func.func private @ptxla.softmax_backward.impl.619(%arg0: tensor<2x4x4xf32>, %arg1: tensor<2x4x4xf32>) -> tensor<2x4x4xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.multiply %arg0, %arg1 : tensor<2x4x4xf32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<2x4x4xf32>, tensor<f32>) -> tensor<2x4xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<2x4xf32>) -> tensor<2x4x4xf32>
    %3 = stablehlo.subtract %arg0, %2 : tensor<2x4x4xf32>
    %4 = stablehlo.multiply %arg1, %3 : tensor<2x4x4xf32>
    return %4 : tensor<2x4x4xf32>
  }
}
