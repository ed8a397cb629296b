// CASE a product that is moved and cast
// has (tensor<4x8xbf16>, tensor<8x4xbf16>) -> tensor<4x4xf32>
// 4 times bf16
// lacks stablehlo.convert
// within 3e-2
func.func @main(%a: tensor<4x8xbf16>, %b: tensor<8x4xbf16>) -> tensor<2x16xf32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
    : (tensor<4x8xbf16>, tensor<8x4xbf16>) -> tensor<4x4xbf16>
  %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<4x4xbf16>) -> tensor<4x4xbf16>
  %2 = stablehlo.reshape %1 : (tensor<4x4xbf16>) -> tensor<16xbf16>
  %3 = stablehlo.broadcast_in_dim %2, dims = [1] : (tensor<16xbf16>) -> tensor<2x16xbf16>
  %4 = stablehlo.convert %3 : (tensor<2x16xbf16>) -> tensor<2x16xf32>
  return %4 : tensor<2x16xf32>
}

// CASE types that are summed in a wider one
// where $N is bf16; $W is f32
// where $N is f16; $W is f32
// where $N is f8E4M3FN; $W is f32
// where $N is i8; $W is i32
// where $N is i16; $W is i32
// where $N is ui8; $W is ui32
// lacks stablehlo.convert
// has -> tensor<4x4x$W>
// not run
func.func @main(%a: tensor<4x8x$N>, %b: tensor<8x4x$N>) -> tensor<4x4x$W> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
    : (tensor<4x8x$N>, tensor<8x4x$N>) -> tensor<4x4x$N>
  %1 = stablehlo.convert %0 : (tensor<4x4x$N>) -> tensor<4x4x$W>
  return %1 : tensor<4x4x$W>
}

// CASE types that nothing sums in by itself; and a sum of i1 is an or
// where $N is bf16; $W is f64
// where $N is f32; $W is f64
// where $N is f32; $W is bf16
// where $N is bf16; $W is f16
// where $N is f16; $W is bf16
// where $N is i8; $W is ui32
// where $N is ui8; $W is i32
// where $N is i8; $W is i16
// where $N is i8; $W is f32
// where $N is i1; $W is i32
// where $N is i32; $W is i64
// where $N is i4; $W is i32
// stays
func.func @main(%a: tensor<4x8x$N>, %b: tensor<8x4x$N>) -> tensor<4x4x$W> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
    : (tensor<4x8x$N>, tensor<8x4x$N>) -> tensor<4x4x$N>
  %1 = stablehlo.convert %0 : (tensor<4x4x$N>) -> tensor<4x4x$W>
  return %1 : tensor<4x4x$W>
}

// CASE dots and convolutions
// lacks stablehlo.convert
// within 3e-2
func.func @main(%a: tensor<4x8xbf16>, %b: tensor<8x4xbf16>, %x: tensor<1x8x8x2xbf16>,
    %k: tensor<3x3x2x5xbf16>) -> (tensor<4x4xf32>, tensor<1x6x6x5xf32>) {
  %0 = stablehlo.dot %a, %b : (tensor<4x8xbf16>, tensor<8x4xbf16>) -> tensor<4x4xbf16>
  %1 = stablehlo.convert %0 : (tensor<4x4xbf16>) -> tensor<4x4xf32>
  %2 = stablehlo.convolution(%x, %k)
    dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x8x8x2xbf16>, tensor<3x3x2x5xbf16>) -> tensor<1x6x6x5xbf16>
  %3 = stablehlo.convert %2 : (tensor<1x6x6x5xbf16>) -> tensor<1x6x6x5xf32>
  return %1, %3 : tensor<4x4xf32>, tensor<1x6x6x5xf32>
}

// CASE several casts to the same type all go
// has return %0, %1, %1
// within 3e-2
func.func @main(%a: tensor<4x8xbf16>, %b: tensor<8x4xbf16>)
    -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = stablehlo.dot %a, %b : (tensor<4x8xbf16>, tensor<8x4xbf16>) -> tensor<4x4xbf16>
  %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<4x4xbf16>) -> tensor<4x4xbf16>
  %2 = stablehlo.convert %0 : (tensor<4x4xbf16>) -> tensor<4x4xf32>
  %3 = stablehlo.convert %1 : (tensor<4x4xbf16>) -> tensor<4x4xf32>
  %4 = stablehlo.convert %1 : (tensor<4x4xbf16>) -> tensor<4x4xf32>
  return %2, %3, %4 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}

// CASE products with another use, and of which something is computed
// where $O is stablehlo.convert %0 : (tensor<4x4xbf16>) -> tensor<4x4xf64>; $S is 0
// where $O is stablehlo.negate %0 : tensor<4x4xbf16>; $S is 0
// where $O is stablehlo.add %0, %0 : tensor<4x4xbf16>; $S is 1
// stays
func.func @main(%a: tensor<4x8xbf16>, %b: tensor<8x4xbf16>) -> tensor<4x4xf32> {
  %0 = stablehlo.dot %a, %b : (tensor<4x8xbf16>, tensor<8x4xbf16>) -> tensor<4x4xbf16>
  %1 = $O
  %2 = stablehlo.convert %$S : (tensor<4x4xbf16>) -> tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}

// CASE a product that is moved and computed with
// stays
func.func @main(%a: tensor<4x8xbf16>, %b: tensor<8x4xbf16>) -> (tensor<4x4xf32>, tensor<16xbf16>) {
  %0 = stablehlo.dot %a, %b : (tensor<4x8xbf16>, tensor<8x4xbf16>) -> tensor<4x4xbf16>
  %1 = stablehlo.reshape %0 : (tensor<4x4xbf16>) -> tensor<16xbf16>
  %2 = stablehlo.negate %1 : tensor<16xbf16>
  %3 = stablehlo.convert %0 : (tensor<4x4xbf16>) -> tensor<4x4xf32>
  return %3, %2 : tensor<4x4xf32>, tensor<16xbf16>
}

// CASE a product that the function returns
// stays
func.func @main(%a: tensor<4x8xbf16>, %b: tensor<8x4xbf16>) -> (tensor<4x4xbf16>, tensor<4x4xf32>) {
  %0 = stablehlo.dot %a, %b : (tensor<4x8xbf16>, tensor<8x4xbf16>) -> tensor<4x4xbf16>
  %1 = stablehlo.convert %0 : (tensor<4x4xbf16>) -> tensor<4x4xf32>
  return %0, %1 : tensor<4x4xbf16>, tensor<4x4xf32>
}

// CASE a product that nothing reads
// stays
func.func @main(%a: tensor<4x8xbf16>, %b: tensor<8x4xbf16>) {
  %0 = stablehlo.dot %a, %b : (tensor<4x8xbf16>, tensor<8x4xbf16>) -> tensor<4x4xbf16>
  return
}

// CASE a product that says itself what it is summed in
// stays
func.func @main(%a: tensor<4x8xbf16>, %b: tensor<8x4xbf16>) -> tensor<4x4xf32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0], algorithm = <
    lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = f32,
    lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1,
    allow_imprecise_accumulation = false>
    : (tensor<4x8xbf16>, tensor<8x4xbf16>) -> tensor<4x4xbf16>
  %1 = stablehlo.convert %0 : (tensor<4x4xbf16>) -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}

// CASE regions and decompositions too, and functions keep their types
// 1 times stablehlo.convert
// has %2 = stablehlo.composite "acme.narrow"
// 3 times -> tensor<4x4xbf16>
// within 3e-2
func.func @main(%a: tensor<4x8xbf16>, %b: tensor<8x4xbf16>)
    -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %i = stablehlo.constant dense<0> : tensor<i32>
  %0 = "stablehlo.case"(%i) ({
    %d = stablehlo.dot %a, %b : (tensor<4x8xbf16>, tensor<8x4xbf16>) -> tensor<4x4xbf16>
    %w = stablehlo.convert %d : (tensor<4x4xbf16>) -> tensor<4x4xf32>
    stablehlo.return %w : tensor<4x4xf32>
  }) : (tensor<i32>) -> tensor<4x4xf32>
  %1 = stablehlo.composite "acme.wide" %a, %b {decomposition = @wide}
    : (tensor<4x8xbf16>, tensor<8x4xbf16>) -> tensor<4x4xf32>
  %2 = stablehlo.composite "acme.narrow" %a, %b {decomposition = @narrow}
    : (tensor<4x8xbf16>, tensor<8x4xbf16>) -> tensor<4x4xbf16>
  %3 = stablehlo.convert %2 : (tensor<4x4xbf16>) -> tensor<4x4xf32>
  return %0, %1, %3 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}
func.func private @wide(%a: tensor<4x8xbf16>, %b: tensor<8x4xbf16>) -> tensor<4x4xf32> {
  %d = stablehlo.dot %a, %b : (tensor<4x8xbf16>, tensor<8x4xbf16>) -> tensor<4x4xbf16>
  %w = stablehlo.convert %d : (tensor<4x4xbf16>) -> tensor<4x4xf32>
  return %w : tensor<4x4xf32>
}
func.func private @narrow(%a: tensor<4x8xbf16>, %b: tensor<8x4xbf16>) -> tensor<4x4xbf16> {
  %d = stablehlo.dot %a, %b : (tensor<4x8xbf16>, tensor<8x4xbf16>) -> tensor<4x4xbf16>
  return %d : tensor<4x4xbf16>
}

// CASE a dynamic size
// lacks stablehlo.convert
// not run
func.func @main(%a: tensor<?x8xbf16>, %b: tensor<8x4xbf16>) -> tensor<?x4xf32> {
  %0 = stablehlo.dot %a, %b : (tensor<?x8xbf16>, tensor<8x4xbf16>) -> tensor<?x4xbf16>
  %1 = stablehlo.convert %0 : (tensor<?x4xbf16>) -> tensor<?x4xf32>
  return %1 : tensor<?x4xf32>
}
