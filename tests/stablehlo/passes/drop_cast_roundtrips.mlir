// CASE data moves in the narrow type
// where $N is bf16; $W is f32
// where $N is f16; $W is f32
// where $N is i16; $W is i32
// lacks stablehlo.convert
// lacks $W>
// where $S is 256x256; $O is stablehlo.transpose %w, dims = [1, 0] : (tensor<$X>) -> tensor<$Sx$W>
// where $S is 4x64x256; $O is stablehlo.reshape %w : (tensor<$X>) -> tensor<$Sx$W>
// where $S is 2x256x256; $O is stablehlo.broadcast_in_dim %w, dims = [1, 2] : (tensor<$X>) -> tensor<$Sx$W>
// where $S is 99x256; $O is stablehlo.slice %w [3:200:2, 0:256] : (tensor<$X>) -> tensor<$Sx$W>
// where $S is 256x256; $O is stablehlo.reverse %w, dims = [0] : tensor<$Sx$W>
// where $S is 7x9; $O is stablehlo.dynamic_slice %w, %i, %i, sizes = [7, 9] : (tensor<$X>, tensor<i64>, tensor<i64>) -> tensor<$Sx$W>
// where $S is 256x256; $O is stablehlo.dynamic_update_slice %w, %w, %i, %i : (tensor<$X>, tensor<$X>, tensor<i64>, tensor<i64>) -> tensor<$Sx$W>
// where $S is 512x256; $O is stablehlo.concatenate %w, %w, dim = 0 : (tensor<$X>, tensor<$X>) -> tensor<$Sx$W>
// where $S is 3x256; $O is "stablehlo.gather"(%w, %rows) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 256>}> : (tensor<$X>, tensor<3x1xi64>) -> tensor<$Sx$W>
// for $X in 256x256x$W
func.func @main(%x: tensor<256x256x$N>) -> tensor<$Sx$N> {
  %i = stablehlo.constant dense<5> : tensor<i64>
  %rows = stablehlo.constant dense<[[9], [300], [2]]> : tensor<3x1xi64>
  %w = stablehlo.convert %x : (tensor<256x256x$N>) -> tensor<256x256x$W>
  %m = $O
  %y = stablehlo.convert %m : (tensor<$Sx$W>) -> tensor<$Sx$N>
  return %y : tensor<$Sx$N>
}

// CASE data is joined with a constant that the narrow type has
// where $N is bf16; $W is f32; $C is 1.0
// where $N is f16; $W is f32; $C is 1.0
// where $N is i16; $W is i32; $C is 1
// lacks stablehlo.convert
// lacks $W>
func.func @main(%x: tensor<256x256x$N>, %p: tensor<257x513xi1>) -> tensor<257x513x$N> {
  %c = stablehlo.constant dense<$C> : tensor<$W>
  %all = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<$W>) -> tensor<257x513x$W>
  %w = stablehlo.convert %x : (tensor<256x256x$N>) -> tensor<256x256x$W>
  %0 = stablehlo.pad %w, %c, low = [1, 0], high = [0, 2], interior = [0, 1]
    : (tensor<256x256x$W>, tensor<$W>) -> tensor<257x513x$W>
  %m = stablehlo.select %p, %0, %all : tensor<257x513xi1>, tensor<257x513x$W>
  %y = stablehlo.convert %m : (tensor<257x513x$W>) -> tensor<257x513x$N>
  return %y : tensor<257x513x$N>
}

// CASE minus infinity and the like are constants of both types
// for $C in 1.5 -0.0 0xFF800000
// lacks f32
func.func @main(%x: tensor<4xbf16>) -> tensor<8xbf16> {
  %c = stablehlo.constant dense<$C> : tensor<4xf32>
  %w = stablehlo.convert %x : (tensor<4xbf16>) -> tensor<4xf32>
  %m = stablehlo.concatenate %c, %w, dim = 0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  %y = stablehlo.convert %m : (tensor<8xf32>) -> tensor<8xbf16>
  return %y : tensor<8xbf16>
}

// CASE constants that the narrow type lacks; and the bits of a NaN are not ours to choose
// for $C in 0x7FC00000 0.1 1.0e-45
// stays
func.func @main(%x: tensor<4xbf16>) -> tensor<8xbf16> {
  %c = stablehlo.constant dense<$C> : tensor<4xf32>
  %w = stablehlo.convert %x : (tensor<4xbf16>) -> tensor<4xf32>
  %m = stablehlo.concatenate %c, %w, dim = 0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  %y = stablehlo.convert %m : (tensor<8xf32>) -> tensor<8xbf16>
  return %y : tensor<8xbf16>
}

// CASE what reads the wide value reads a cast of the moved one
// has stablehlo.transpose %arg0, dims = [1, 0] : (tensor<2x3xbf16>)
// has %1 = stablehlo.convert %0
// has %2 = stablehlo.tanh %1 : tensor<3x2xf32>
// has return %0, %2
func.func @main(%x: tensor<2x3xbf16>) -> (tensor<3x2xbf16>, tensor<3x2xf32>) {
  %0 = stablehlo.convert %x : (tensor<2x3xbf16>) -> tensor<2x3xf32>
  %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %2 = stablehlo.convert %1 : (tensor<3x2xf32>) -> tensor<3x2xbf16>
  %3 = stablehlo.tanh %1 : tensor<3x2xf32>
  return %2, %3 : tensor<3x2xbf16>, tensor<3x2xf32>
}

// CASE what computes, holds back, or has another operand that is not of the narrow type
// where $O is stablehlo.tanh %w : tensor<4x4xf32>
// where $O is stablehlo.add %w, %w : tensor<4x4xf32>
// where $O is stablehlo.add %w, %z : tensor<4x4xf32>
// where $O is stablehlo.select %p, %w, %z : tensor<4x4xi1>, tensor<4x4xf32>
// where $O is stablehlo.optimization_barrier %w : tensor<4x4xf32>
// stays
func.func @main(%x: tensor<4x4xbf16>, %z: tensor<4x4xf32>, %p: tensor<4x4xi1>)
    -> tensor<4x4xbf16> {
  %w = stablehlo.convert %x : (tensor<4x4xbf16>) -> tensor<4x4xf32>
  %m = $O
  %y = stablehlo.convert %m : (tensor<4x4xf32>) -> tensor<4x4xbf16>
  return %y : tensor<4x4xbf16>
}

// CASE what reads bits
// stays
func.func @main(%x: tensor<4x4xbf16>) -> tensor<4x4xbf16> {
  %w = stablehlo.convert %x : (tensor<4x4xbf16>) -> tensor<4x4xf32>
  %b = stablehlo.bitcast_convert %w : (tensor<4x4xf32>) -> tensor<4x4xi32>
  %m = stablehlo.bitcast_convert %b : (tensor<4x4xi32>) -> tensor<4x4xf32>
  %y = stablehlo.convert %m : (tensor<4x4xf32>) -> tensor<4x4xbf16>
  return %y : tensor<4x4xbf16>
}

// CASE a way without a way back
// stays
func.func @main(%x: tensor<2x4xbf16>) -> tensor<4x2xf32> {
  %w = stablehlo.convert %x : (tensor<2x4xbf16>) -> tensor<2x4xf32>
  %y = stablehlo.transpose %w, dims = [1, 0] : (tensor<2x4xf32>) -> tensor<4x2xf32>
  return %y : tensor<4x2xf32>
}

// CASE complex numbers
// stays
func.func @main(%x: tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>> {
  %c = stablehlo.constant dense<(0.0,1.0)> : tensor<2xcomplex<f32>>
  %y = stablehlo.add %x, %c : tensor<2xcomplex<f32>>
  return %y : tensor<2xcomplex<f32>>
}

// CASE regions and decompositions too
// lacks f32
func.func @main(%x: tensor<4x4xbf16>, %p: tensor<i1>) -> tensor<4x4xbf16> {
  %w = stablehlo.convert %x : (tensor<4x4xbf16>) -> tensor<4x4xf32>
  %i = stablehlo.convert %p : (tensor<i1>) -> tensor<i32>
  %0 = "stablehlo.case"(%i) ({
    %1 = stablehlo.reverse %w, dims = [0] : tensor<4x4xf32>
    %2 = stablehlo.convert %1 : (tensor<4x4xf32>) -> tensor<4x4xbf16>
    stablehlo.return %2 : tensor<4x4xbf16>
  }, {
    stablehlo.return %x : tensor<4x4xbf16>
  }) : (tensor<i32>) -> tensor<4x4xbf16>
  %3 = stablehlo.composite "acme.turn" %0 {decomposition = @turn}
    : (tensor<4x4xbf16>) -> tensor<4x4xbf16>
  return %3 : tensor<4x4xbf16>
}
func.func private @turn(%x: tensor<4x4xbf16>) -> tensor<4x4xbf16> {
  %0 = stablehlo.convert %x : (tensor<4x4xbf16>) -> tensor<4x4xf32>
  %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = stablehlo.convert %1 : (tensor<4x4xf32>) -> tensor<4x4xbf16>
  return %2 : tensor<4x4xbf16>
}

// CASE a dynamic size, and a type that XLA noted, which does not outlive the change
// where $R is ?; $A is
// where $R is 2; $A is {xla_shape = "f32[4,2]{0,1}"}
// lacks f32
// not run
func.func @main(%x: tensor<$Rx4xbf16>) -> tensor<4x$Rxbf16> {
  %w = stablehlo.convert %x : (tensor<$Rx4xbf16>) -> tensor<$Rx4xf32>
  %m = stablehlo.transpose %w, dims = [1, 0] $A : (tensor<$Rx4xf32>) -> tensor<4x$Rxf32>
  %y = stablehlo.convert %m : (tensor<4x$Rxf32>) -> tensor<4x$Rxbf16>
  return %y : tensor<4x$Rxbf16>
}
