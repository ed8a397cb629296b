"""reduce_booleans_as_i32: the same truths, whatever the region looks like."""

import numpy as np
import pytest
from composites_testing.passes import changed, program, stay

from lowering.stablehlo import Module, compile_module, reduce_booleans_as_i32

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


def reduction(region: str, init: str, attributes: str = "") -> Module:
    body = f"""
      %true = stablehlo.constant dense<true> : tensor<i1>
      %false = stablehlo.constant dense<false> : tensor<i1>
      %r = "stablehlo.reduce"(%x, %{init}) <{{dimensions = array<i64: 0, 2>}}> ({{
      ^bb0(%a: tensor<i1>, %b: tensor<i1>):
        {region}
        stablehlo.return %1 : tensor<i1>
      }}) {{{attributes}}} : (tensor<3x4x5xi1>, tensor<i1>) -> tensor<4xi1>"""
    return program(body, "%x: tensor<3x4x5xi1>, %given: tensor<i1>", "tensor<4xi1>")


@pytest.mark.parametrize("init", ["true", "false", "given"])
def test_the_result_stays(init: str) -> None:
    for name, region in REGIONS.items():
        module = reduction(region, init)
        numbers = changed(module, reduce_booleans_as_i32)
        assert "applies stablehlo.m" in numbers.text
        before, after = compile_module(module), compile_module(numbers)
        for likely in (0.03, 0.5, 0.97):
            x = np.random.default_rng(0).random((3, 4, 5)) < likely
            for given in (np.array(False), np.array(True)):
                np.testing.assert_array_equal(after(x, given), before(x, given), err_msg=name)


def test_others_stay() -> None:
    plain = reduction(REGIONS["and"], "true").text
    dynamic = plain.replace("tensor<3x4x5xi1>", "tensor<3x?x5xi1>").replace("<4xi1>", "<?xi1>")
    sharded = reduction(REGIONS["and"], "true", 'mhlo.sharding = "{replicated}"')
    others = [reduction(region, "true") for region in STAY.values()]
    stay(reduce_booleans_as_i32, [*others, sharded, Module.parse(dynamic)])
