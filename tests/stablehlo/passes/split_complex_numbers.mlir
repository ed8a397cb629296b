// CASE a rotation of pairs of numbers
// where $O is multiply %b, %z
// where $O is add %b, %z
// where $O is subtract %b, %z
// within 1e-6
// lacks complex
func.func @main(%x: tensor<3x4x2xf32>, %a: tensor<4xf32>) -> tensor<3x4x2xf32> {
  %l = stablehlo.slice %x [0:3, 0:4, 0:1] : (tensor<3x4x2xf32>) -> tensor<3x4x1xf32>
  %m = stablehlo.slice %x [0:3, 0:4, 1:2] : (tensor<3x4x2xf32>) -> tensor<3x4x1xf32>
  %c = stablehlo.complex %l, %m : tensor<3x4x1xcomplex<f32>>
  %z = stablehlo.reshape %c : (tensor<3x4x1xcomplex<f32>>) -> tensor<3x4xcomplex<f32>>
  %cos = stablehlo.cosine %a : tensor<4xf32>
  %sin = stablehlo.sine %a : tensor<4xf32>
  %p = stablehlo.complex %cos, %sin : tensor<4xcomplex<f32>>
  %n = stablehlo.negate %p : tensor<4xcomplex<f32>>
  %w = stablehlo.convert %n : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f64>>
  %f = stablehlo.convert %w : (tensor<4xcomplex<f64>>) -> tensor<4xcomplex<f32>>
  %b = stablehlo.broadcast_in_dim %f, dims = [1] : (tensor<4xcomplex<f32>>) -> tensor<3x4xcomplex<f32>>
  %q = stablehlo.$O : tensor<3x4xcomplex<f32>>
  %s = stablehlo.real %q : (tensor<3x4xcomplex<f32>>) -> tensor<3x4xf32>
  %t = stablehlo.imag %q : (tensor<3x4xcomplex<f32>>) -> tensor<3x4xf32>
  %u = stablehlo.reshape %s : (tensor<3x4xf32>) -> tensor<3x4x1xf32>
  %v = stablehlo.reshape %t : (tensor<3x4xf32>) -> tensor<3x4x1xf32>
  %r = stablehlo.concatenate %u, %v, dim = 2 : (tensor<3x4x1xf32>, tensor<3x4x1xf32>) -> tensor<3x4x2xf32>
  return %r : tensor<3x4x2xf32>
}

// CASE complex numbers that the program gets
// within 1e-6
// 1 times stablehlo.imag %arg1
// lacks stablehlo.complex
func.func @main(%x: tensor<4xf32>, %z: tensor<4xcomplex<f32>>) -> tensor<4xf32> {
  %c = stablehlo.complex %x, %x : tensor<4xcomplex<f32>>
  %p = stablehlo.multiply %c, %z : tensor<4xcomplex<f32>>
  %n = stablehlo.convert %x : (tensor<4xf32>) -> tensor<4xcomplex<f32>>
  %s = stablehlo.add %p, %n : tensor<4xcomplex<f32>>
  %r = stablehlo.imag %s : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// CASE complex results, shardings, and numbers whose parts are not read
// where $O is ; $R is multiply %z, %c
// where $O is {mhlo.sharding = "{replicated}"}; $R is reverse %z, dims = [0]
// where $O is ; $R is exponential %c
// stays
func.func @main(%x: tensor<4xf32>, %z: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {
  %c = stablehlo.complex %x, %x $O : tensor<4xcomplex<f32>>
  %r = stablehlo.$R : tensor<4xcomplex<f32>>
  return %r : tensor<4xcomplex<f32>>
}

// CASE real numbers of dynamic shape
// stays
func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  %c = stablehlo.convert %x : (tensor<?xf32>) -> tensor<?xcomplex<f32>>
  %r = stablehlo.imag %c : (tensor<?xcomplex<f32>>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}
