// CASE comparisons of bytes that are made from truths
// where $D is EQ; $L is p; $R is q
// where $D is EQ; $L is p; $R is one
// where $D is NE; $L is p; $R is one
// where $D is EQ; $L is p; $R is zero
// where $D is NE; $L is zero; $R is p
// lacks xui8>, tensor<40xui8>) -> tensor<40xi1>
func.func @main(%a: tensor<40xi1>, %b: tensor<40xi1>) -> tensor<40xi1> {
  %zero = stablehlo.constant dense<0> : tensor<40xui8>
  %one = stablehlo.constant dense<1> : tensor<40xui8>
  %p = stablehlo.convert %a : (tensor<40xi1>) -> tensor<40xui8>
  %q = stablehlo.convert %b : (tensor<40xi1>) -> tensor<40xui8>
  %r = stablehlo.compare $D, %$L, %$R, UNSIGNED : (tensor<40xui8>, tensor<40xui8>) -> tensor<40xi1>
  return %r : tensor<40xi1>
}

// CASE nothing is left of the bytes, in a decomposition
// 1 times stablehlo.and
// lacks stablehlo.compare
// lacks ui8
func.func @main(%a: tensor<40xi1>, %b: tensor<40xi1>) -> tensor<40xi1> {
  %0 = stablehlo.composite "acme.logic" %a, %b {decomposition = @logic}
    : (tensor<40xi1>, tensor<40xi1>) -> tensor<40xi1>
  return %0 : tensor<40xi1>
}
func.func private @logic(%a: tensor<40xi1>, %b: tensor<40xi1>) -> tensor<40xi1> {
  %zero = stablehlo.constant dense<0> : tensor<40xui8>
  %p = stablehlo.convert %a : (tensor<40xi1>) -> tensor<40xui8>
  %q = stablehlo.convert %b : (tensor<40xi1>) -> tensor<40xui8>
  %c = stablehlo.and %p, %q : tensor<40xui8>
  %r = stablehlo.compare NE, %c, %zero : (tensor<40xui8>, tensor<40xui8>) -> tensor<40xi1>
  return %r : tensor<40xi1>
}

// CASE a chain
// lacks xui8>, tensor<40xui8>) -> tensor<40xi1>
func.func @main(%a: tensor<40xi1>, %b: tensor<40xi1>) -> tensor<40xi1> {
  %zero = stablehlo.constant dense<0> : tensor<40xui8>
  %one = stablehlo.constant dense<1> : tensor<40xui8>
  %p = stablehlo.convert %a : (tensor<40xi1>) -> tensor<40xui8>
  %q = stablehlo.convert %b : (tensor<40xi1>) -> tensor<40xui8>
  %c = stablehlo.and %p, %q : tensor<40xui8>
  %d = stablehlo.compare NE, %c, %zero : (tensor<40xui8>, tensor<40xui8>) -> tensor<40xi1>
  %e = stablehlo.convert %d : (tensor<40xi1>) -> tensor<40xui8>
  %f = stablehlo.or %e, %q : tensor<40xui8>
  %g = stablehlo.xor %f, %one : tensor<40xui8>
  %r = stablehlo.compare NE, %g, %zero : (tensor<40xui8>, tensor<40xui8>) -> tensor<40xi1>
  return %r : tensor<40xi1>
}

// CASE bytes that are moved and selected
// lacks xui8>, tensor<3x4xui8>) -> tensor<3x4xi1>
func.func @main(%a: tensor<3x4xi1>, %b: tensor<3x4xi1>) -> tensor<3x4xi1> {
  %zero = stablehlo.constant dense<0> : tensor<3x4xui8>
  %p = stablehlo.convert %b : (tensor<3x4xi1>) -> tensor<3x4xui8>
  %c = stablehlo.transpose %p, dims = [1, 0] : (tensor<3x4xui8>) -> tensor<4x3xui8>
  %d = stablehlo.reshape %c : (tensor<4x3xui8>) -> tensor<3x4xui8>
  %e = stablehlo.select %a, %d, %zero : tensor<3x4xi1>, tensor<3x4xui8>
  %r = stablehlo.compare NE, %e, %zero : (tensor<3x4xui8>, tensor<3x4xui8>) -> tensor<3x4xi1>
  return %r : tensor<3x4xi1>
}

// CASE an order, sums, other numbers, numbers that are given, and a sharding
// where $O is and; $S is; $D is LT; $L is p; $R is q
// where $O is add; $S is; $D is NE; $L is c; $R is zero
// where $O is and; $S is; $D is NE; $L is p; $R is two
// where $O is and; $S is; $D is NE; $L is n; $R is zero
// where $O is and; $S is {mhlo.sharding = "{replicated}"}; $D is NE; $L is c; $R is zero
// stays
func.func @main(%a: tensor<4xi1>, %b: tensor<4xi1>, %n: tensor<4xui8>) -> tensor<4xi1> {
  %zero = stablehlo.constant dense<0> : tensor<4xui8>
  %two = stablehlo.constant dense<2> : tensor<4xui8>
  %p = stablehlo.convert %a : (tensor<4xi1>) -> tensor<4xui8>
  %q = stablehlo.convert %b : (tensor<4xi1>) -> tensor<4xui8>
  %c = stablehlo.$O %p, %q $S : tensor<4xui8>
  %r = stablehlo.compare $D, %$L, %$R : (tensor<4xui8>, tensor<4xui8>) -> tensor<4xi1>
  return %r : tensor<4xi1>
}
