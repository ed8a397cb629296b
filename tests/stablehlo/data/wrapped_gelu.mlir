// What torch_xla prints for gelu(gelu(x)) and gelu(row): a wrapper around each composite, and a
// decomposition for each call.
module @IrToHlo.99 attributes {mhlo.cross_program_prefetches = [], mhlo.input_output_alias = [], mhlo.is_dynamic = false, mhlo.use_auto_spmd_partitioning = false} {
  func.func @main(%arg0: tensor<8x16xf32>, %arg1: tensor<16xf32>) -> (tensor<8x16xf32>, tensor<16xf32>) {
    %0 = call @m.130(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %1 = call @m.154(%0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %2 = call @m.196(%arg1) : (tensor<16xf32>) -> tensor<16xf32>
    return %1, %2 : tensor<8x16xf32>, tensor<16xf32>
  }
  func.func private @m.130(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {
    %0 = stablehlo.composite "ptxla.gelu" %arg0 {composite_attributes = {approximate = "none"}, decomposition = @ptxla.gelu.impl.117, version = 1 : i32} : (tensor<8x16xf32>) -> tensor<8x16xf32>
    return %0 : tensor<8x16xf32>
  }
  func.func private @ptxla.gelu.impl.117(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<8x16xf32>
    %cst_0 = stablehlo.constant dense<0.707106769> : tensor<8x16xf32>
    %cst_1 = stablehlo.constant dense<5.000000e-01> : tensor<8x16xf32>
    %0 = stablehlo.multiply %arg0, %cst_1 : tensor<8x16xf32>
    %1 = stablehlo.multiply %arg0, %cst_0 : tensor<8x16xf32>
    %2 = stablehlo.custom_call @mhlo.erf(%1) {mhlo.attributes = {}, mhlo.version = 1 : i64} : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %3 = stablehlo.add %2, %cst : tensor<8x16xf32>
    %4 = stablehlo.multiply %0, %3 : tensor<8x16xf32>
    return %4 : tensor<8x16xf32>
  }
  func.func private @m.154(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {
    %0 = stablehlo.composite "ptxla.gelu" %arg0 {composite_attributes = {approximate = "none"}, decomposition = @ptxla.gelu.impl.134, version = 1 : i32} : (tensor<8x16xf32>) -> tensor<8x16xf32>
    return %0 : tensor<8x16xf32>
  }
  func.func private @ptxla.gelu.impl.134(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<8x16xf32>
    %cst_0 = stablehlo.constant dense<0.707106769> : tensor<8x16xf32>
    %cst_1 = stablehlo.constant dense<5.000000e-01> : tensor<8x16xf32>
    %0 = stablehlo.multiply %arg0, %cst_1 : tensor<8x16xf32>
    %1 = stablehlo.multiply %arg0, %cst_0 : tensor<8x16xf32>
    %2 = stablehlo.custom_call @mhlo.erf(%1) {mhlo.attributes = {}, mhlo.version = 1 : i64} : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %3 = stablehlo.add %2, %cst : tensor<8x16xf32>
    %4 = stablehlo.multiply %0, %3 : tensor<8x16xf32>
    return %4 : tensor<8x16xf32>
  }
  func.func private @m.196(%arg0: tensor<16xf32>) -> tensor<16xf32> {
    %0 = stablehlo.composite "ptxla.gelu" %arg0 {composite_attributes = {approximate = "none"}, decomposition = @ptxla.gelu.impl.183, version = 1 : i32} : (tensor<16xf32>) -> tensor<16xf32>
    return %0 : tensor<16xf32>
  }
  func.func private @ptxla.gelu.impl.183(%arg0: tensor<16xf32>) -> tensor<16xf32> {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<16xf32>
    %cst_0 = stablehlo.constant dense<0.707106769> : tensor<16xf32>
    %cst_1 = stablehlo.constant dense<5.000000e-01> : tensor<16xf32>
    %0 = stablehlo.multiply %arg0, %cst_1 : tensor<16xf32>
    %1 = stablehlo.multiply %arg0, %cst_0 : tensor<16xf32>
    %2 = stablehlo.custom_call @mhlo.erf(%1) {mhlo.attributes = {}, mhlo.version = 1 : i64} : (tensor<16xf32>) -> tensor<16xf32>
    %3 = stablehlo.add %2, %cst : tensor<16xf32>
    %4 = stablehlo.multiply %0, %3 : tensor<16xf32>
    return %4 : tensor<16xf32>
  }
}
