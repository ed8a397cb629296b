"""decompose: by name, by glob, and all but some; passes/decompose.mlir has more."""

import re

import pytest
from composites_testing.passes import composite_module, load, same_numbers

from lowering import stablehlo


def left(module: stablehlo.Module) -> set[str]:
    return set(re.findall(r'stablehlo\.composite "([\w.]+)"', module.text))


TWICE, TANH, OUTER = "acme.twice", "acme.tanh", "ptxla.outer"
REMAINING: tuple[tuple[dict[str, str | list[str]], set[str]], ...] = (
    ({}, set()),
    ({"only": TWICE}, {TANH, OUTER}),
    ({"only": "acme.*"}, {OUTER}),
    ({"only": [OUTER]}, {TWICE, TANH}),
    ({"keep": "ptxla.*"}, {OUTER}),
    ({"only": "acme.*", "keep": [TANH]}, {TANH, OUTER}),
    ({"keep": "*"}, {TWICE, TANH, OUTER}),
)


def test_only_and_keep() -> None:
    before = load("block")
    for options, remaining in REMAINING:
        after = stablehlo.decompose(before, **options)
        assert left(after) == remaining
        assert " call @" not in after.text
        # One function for each composite that is left, and main.
        assert after.text.count("func.func") == 1 + len(remaining)
        same_numbers(before, after)


def test_the_training_step_decomposes() -> None:
    before = stablehlo.clean(load("transformer_step_torch_xla_2_9"))
    after = stablehlo.decompose(before, only="*_backward")
    assert left(after) == {"ptxla.gelu", "ptxla.softmax"}
    same_numbers(before, after, tolerance=1e-6)


def one_composite(text: str = '"v"') -> stablehlo.Module:
    return composite_module("x.y", "tensor<f32>", attributes=f"{{k = {text}}}")


def test_strings_that_are_not_utf8() -> None:
    message = r'the string "\\FF" is not UTF-8; write it in UTF-8'
    with pytest.raises(stablehlo.StableHLOError, match=message):
        stablehlo.inspect(one_composite(r'"\FF"'))
    with pytest.raises(stablehlo.StableHLOError, match=message):
        stablehlo.inspect(stablehlo.Module.parse(r'func.func @"\FF"() { return }'))
    module = stablehlo.Module.parse(r'module @"\FF" {}')
    with pytest.raises(stablehlo.StableHLOError, match=message):
        print(module.name)
    text = one_composite().text.replace("@impl", r'@"\FF"')
    for call in (stablehlo.inspect, stablehlo.decompose, stablehlo.clean):
        with pytest.raises(stablehlo.StableHLOError, match="is not UTF-8; write it in UTF-8"):
            call(stablehlo.Module.parse(text))


def test_attributes_that_are_nested_deeply() -> None:
    def nested(depth: int) -> stablehlo.Module:
        return one_composite("[" * depth + "1" + "]" * depth)

    assert stablehlo.composite_count(nested(90)) == {"x.y": 1}
    message = "attributes are nested more than 100 deep"
    with pytest.raises(stablehlo.StableHLOError, match=message):
        stablehlo.inspect(nested(1000))
    module = one_composite("{k = " * 200 + "1" + "}" * 200)
    with pytest.raises(
        stablehlo.StableHLOError, match="dictionaries are nested more than 100 deep"
    ):
        stablehlo.to_custom_call(module, {"x.y": "kernel"})
