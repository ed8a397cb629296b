// CASE empty attributes and the counter
// load wrapped_gelu
// has module @IrToHlo {

// CASE notes on layouts
// load transformer_torch_xla_2_9
// lacks xla_shape
// lacks result_layout
// within 0

// CASE attributes that say something
// stays
module @step attributes {mhlo.is_dynamic = true, mhlo.num_partitions = 4 : i32} {}
