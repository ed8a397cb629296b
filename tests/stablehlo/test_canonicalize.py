"""canonicalize: defaults are not written, and what is equal is there once."""

from lowering.stablehlo import Module, canonicalize

BEFORE = """
func.func @main(%x: tensor<2x3xf32>, %y: tensor<3x2xf32>, %m: tensor<2xui8>, %n: tensor<2xui8>)
    -> (tensor<2x2xf32>, tensor<2x2xi1>, tensor<2x3xf32>, tensor<2xi1>) {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT]
    : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %1 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT]
    : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %2 = stablehlo.compare LT, %0, %1, TOTALORDER
    : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xi1>
  %3 = stablehlo.constant dense<0.0> : tensor<f32>
  %4 = stablehlo.pad %x, %3, low = [0, 0], high = [0, 0], interior = [0, 0]
    : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %5 = stablehlo.compare LT, %m, %n, UNSIGNED : (tensor<2xui8>, tensor<2xui8>) -> tensor<2xi1>
  return %0, %2, %4, %5 : tensor<2x2xf32>, tensor<2x2xi1>, tensor<2x3xf32>, tensor<2xi1>
}"""


def test_defaults_and_duplicates_go() -> None:
    text = canonicalize(Module.parse(BEFORE)).text
    assert text.count("dot_general") == 1
    assert "DEFAULT" not in text
    assert "stablehlo.pad" not in text
    assert "UNSIGNED" not in text


def test_what_is_not_a_default_stays() -> None:
    text = canonicalize(
        Module.parse(BEFORE.replace("[DEFAULT, DEFAULT]", "[HIGHEST, HIGHEST]"))
    ).text
    assert "precision = [HIGHEST, HIGHEST]" in text
    assert "TOTALORDER" in text
