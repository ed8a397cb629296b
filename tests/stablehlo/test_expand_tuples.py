"""expand_tuples: composites and custom calls of several results, not of one tuple."""

from lowering.stablehlo import Module
from lowering.stablehlo.passes.expand_tuples import expand_tuples

PAIR = "tuple<tensor<4xf32>, tensor<4xf32>>"

# A composite whose decomposition returns the tuple of another one as it is.
NESTED = f"""
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {{
  %0 = stablehlo.composite "acme.outer" %x {{decomposition = @outer}} : (tensor<4xf32>) -> {PAIR}
  %1 = stablehlo.get_tuple_element %0[0] : ({PAIR}) -> tensor<4xf32>
  %2 = stablehlo.get_tuple_element %0[1] : ({PAIR}) -> tensor<4xf32>
  return %1, %2 : tensor<4xf32>, tensor<4xf32>
}}
func.func private @outer(%x: tensor<4xf32>) -> {PAIR} {{
  %0 = stablehlo.composite "acme.inner" %x {{decomposition = @inner}} : (tensor<4xf32>) -> {PAIR}
  return %0 : {PAIR}
}}
func.func private @inner(%x: tensor<4xf32>) -> {PAIR} {{
  %0 = stablehlo.negate %x : tensor<4xf32>
  %1 = stablehlo.tuple %0, %x : {PAIR}
  return %1 : {PAIR}
}}
"""


def test_nested_composites() -> None:
    expanded = expand_tuples(Module.parse(NESTED))
    assert "tuple" not in expanded.text
    assert '%0:2 = stablehlo.composite "acme.outer"' in expanded.text
    assert '%0:2 = stablehlo.composite "acme.inner"' in expanded.text
    assert expand_tuples(expanded).text == expanded.text


CUSTOM = f"""
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
  %0 = stablehlo.custom_call @Qr(%x) {{result_tilings = [[], []], xla_shape = "(f32[4], f32[4])"}}
    : (tensor<4xf32>) -> {PAIR}
  %1 = stablehlo.get_tuple_element %0[1] : ({PAIR}) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}}
"""


def test_custom_calls_can_be_written_to_an_artifact() -> None:
    expanded = expand_tuples(Module.parse(CUSTOM))
    assert "tuple" not in expanded.text
    assert "result_tilings" not in expanded.text
    assert "%0:2 = stablehlo.custom_call @Qr" in expanded.text
    assert Module.from_bytes(expanded.portable(), "an artifact").text == expanded.text
