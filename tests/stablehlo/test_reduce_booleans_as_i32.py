"""reduce_booleans_as_i32: the same truths, whatever the region looks like."""

from __future__ import annotations

import numpy as np
import pytest

from lowering.stablehlo import Module, reduce_booleans_as_i32, run

REGIONS = {
    "and": "%1 = stablehlo.and %a, %b : tensor<i1>",
    "or": "%1 = stablehlo.or %a, %b : tensor<i1>",
    "minimum": "%1 = stablehlo.minimum %b, %a : tensor<i1>",
    "as torch_xla writes it": """
        %c = stablehlo.and %a, %b : tensor<i1>
        %1 = stablehlo.select %c, %true, %false : tensor<i1>, tensor<i1>""",
    "not and": """
        %c = stablehlo.not %a : tensor<i1>
        %d = stablehlo.not %b : tensor<i1>
        %e = stablehlo.and %c, %d : tensor<i1>
        %1 = stablehlo.not %e : tensor<i1>""",
}
STAY = {
    "xor": "%1 = stablehlo.xor %a, %b : tensor<i1>",
    "with a value from outside": "%1 = stablehlo.and %a, %given : tensor<i1>",
}


def reduction(region: str, init: str, sizes: str = "3x4x5", attributes: str = "") -> Module:
    return Module.parse(f"""
        func.func @main(%x: tensor<{sizes}xi1>, %given: tensor<i1>) -> tensor<4xi1> {{
          %true = stablehlo.constant dense<true> : tensor<i1>
          %false = stablehlo.constant dense<false> : tensor<i1>
          %0 = "stablehlo.reduce"(%x, %{init}) <{{dimensions = array<i64: 0, 2>}}> ({{
          ^bb0(%a: tensor<i1>, %b: tensor<i1>):
            {region}
            stablehlo.return %1 : tensor<i1>
          }}) {{{attributes}}} : (tensor<{sizes}xi1>, tensor<i1>) -> tensor<4xi1>
          return %0 : tensor<4xi1>
        }}
    """)


@pytest.mark.parametrize("init", ["true", "false", "given"])
@pytest.mark.parametrize("name", REGIONS)
def test_the_result_stays(name: str, init: str) -> None:
    module = reduction(REGIONS[name], init)
    numbers = reduce_booleans_as_i32(module)
    numbers.verify()
    assert "applies stablehlo.m" in numbers.text
    for likely in (0.03, 0.5, 0.97):
        x = np.random.default_rng(0).random((3, 4, 5)) < likely
        for given in (False, True):
            (want,), (found,) = (run(each, x, np.array(given)) for each in (module, numbers))
            np.testing.assert_array_equal(found, want)
    assert reduce_booleans_as_i32(numbers).text == numbers.text


@pytest.mark.parametrize("name", STAY)
def test_others_stay(name: str) -> None:
    module = reduction(STAY[name], "true")
    assert reduce_booleans_as_i32(module).text == module.text


@pytest.mark.parametrize("sizes", ["3x?x5", "3x4x5"], ids=["dynamic", "sharded"])
def test_dynamic_and_sharded_ones_stay(sizes: str) -> None:
    text = reduction(REGIONS["and"], "true", attributes='mhlo.sharding = "{replicated}"').text
    if "?" in sizes:
        text = reduction(REGIONS["and"], "true").text
        text = text.replace("tensor<3x4x5xi1>", f"tensor<{sizes}xi1>").replace("<4xi1>", "<?xi1>")
    module = Module.parse(text)
    assert reduce_booleans_as_i32(module).text == module.text
