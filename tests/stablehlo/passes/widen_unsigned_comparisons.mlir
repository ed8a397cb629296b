// CASE unsigned numbers are compared in a wider type with a sign
// for $D in EQ NE LT LE GT GE
// where $E is ui8; $W is i32
// where $E is ui16; $W is i32
// where $E is ui32; $W is i64
// has (tensor<400x$W>, tensor<400x$W>)
func.func @main(%x: tensor<400x$E>, %y: tensor<400x$E>) -> tensor<400xi1> {
  %0 = stablehlo.compare $D, %x, %y, UNSIGNED : (tensor<400x$E>, tensor<400x$E>) -> tensor<400xi1>
  return %0 : tensor<400xi1>
}

// CASE other types
// where $E is ui64; $K is UNSIGNED
// where $E is i32; $K is SIGNED
// where $E is f32; $K is FLOAT
// stays
func.func @main(%x: tensor<4x$E>, %y: tensor<4x$E>) -> tensor<4xi1> {
  %0 = stablehlo.compare LT, %x, %y, $K : (tensor<4x$E>, tensor<4x$E>) -> tensor<4xi1>
  return %0 : tensor<4xi1>
}
