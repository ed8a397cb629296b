"""flatten_calls: wrappers disappear, decompositions stay."""

import pytest
from composites_testing.passes import load, same_numbers

from lowering.stablehlo import Module, UnsupportedOperationError, flatten_calls


def test_wrappers_around_composites_disappear() -> None:
    before = load("wrapped_gelu")
    after = flatten_calls(before)
    assert "call @m." not in after.text
    assert "func.func private @m." not in after.text
    assert after.text.count("func.func private @ptxla.gelu.impl.") == 3
    main = after.text.split("func.func private")[0]
    assert main.count("stablehlo.composite") == 3
    same_numbers(before, after)


def test_calls_in_calls_and_in_loops() -> None:
    before = load("plain_calls")
    after = flatten_calls(before)
    assert "call" not in after.text.replace("@calls", "")
    assert after.text.count("func.func") == 1
    assert after.text.count("stablehlo.tanh") == 3
    same_numbers(before, after)


def test_only_the_named_functions_are_inlined() -> None:
    text = flatten_calls(load("plain_calls"), only={"outer"}).text
    assert "call @outer" not in text
    assert text.count("call @inner") == 3
    assert "call @loop" in text


def test_public_functions_and_declarations_stay() -> None:
    module = Module.parse(
        """
        func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
          %0 = call @visible(%x) : (tensor<2xf32>) -> tensor<2xf32>
          %1 = call @elsewhere(%0) : (tensor<2xf32>) -> tensor<2xf32>
          return %1 : tensor<2xf32>
        }
        func.func @visible(%x: tensor<2xf32>) -> tensor<2xf32> {
          %0 = stablehlo.negate %x : tensor<2xf32>
          return %0 : tensor<2xf32>
        }
        func.func private @elsewhere(tensor<2xf32>) -> tensor<2xf32>
        """
    )
    text = flatten_calls(module).text
    assert text.count("stablehlo.negate") == 2
    assert "call @elsewhere" in text
    assert "func.func @visible" in text


NEGATED = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = call @f(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = stablehlo.composite "acme.f" %0 {decomposition = @f} : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.negate %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}
"""


def test_a_function_that_is_called_and_also_a_decomposition_stays() -> None:
    text = flatten_calls(Module.parse(NEGATED)).text
    assert text.count("stablehlo.negate") == 2
    assert "call @f" not in text


def test_recursion_is_refused() -> None:
    called = "call @f(%x) : (tensor<2xf32>) -> tensor<2xf32>"
    module = Module.parse(NEGATED.replace("stablehlo.negate %x : tensor<2xf32>", called))
    message = "^@f and @f refer to each other in a cycle; StableHLO programs cannot recurse$"
    with pytest.raises(UnsupportedOperationError, match=message):
        flatten_calls(module)


def test_swapped_and_unused_results() -> None:
    module = Module.parse(
        """
        func.func @main(%x: tensor<2xf32>, %y: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
          %0:2 = call @swap(%x, %y)
            : (tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
          return %0#0, %0#1 : tensor<2xf32>, tensor<2xf32>
        }
        func.func private @swap(%a: tensor<2xf32>, %b: tensor<2xf32>)
            -> (tensor<2xf32>, tensor<2xf32>) {
          return %b, %a : tensor<2xf32>, tensor<2xf32>
        }
        """
    )
    assert "return %arg1, %arg0" in flatten_calls(module).text
