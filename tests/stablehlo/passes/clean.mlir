// CASE what torch_xla 2.9 printed
// for $SAMPLE in transformer_torch_xla_2_9 transformer_step_torch_xla_2_9 wrapped_gelu
// for $SHARE in True False
// load $SAMPLE
// with {"share": $SHARE}
// lacks mhlo.
// lacks call @
// lacks xla_shape
// has module @IrToHlo {
// within 1e-6

// CASE equal calls share a decomposition
// load transformer_step_torch_xla_2_9
// 1 times func.func private @ptxla.gelu.impl(
// 1 times func.func private @ptxla.gelu_backward.impl(
// 1 times func.func private @ptxla.softmax.impl(
// 1 times func.func private @ptxla.softmax_backward.impl(
// 4 times func.func private
// within 1e-6

// CASE each call can have a decomposition of its own
// load transformer_step_torch_xla_2_9
// with {"share": False}
// 8 times func.func private
// has @ptxla.gelu.impl_0
// within 1e-6

// CASE no public function
// refused all functions of the module are priv
func.func private @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }
