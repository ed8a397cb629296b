"""decompose: by name, by glob, all but some, and what happens to a name that is not there."""

import re

import pytest
from composites_testing.passes import composite_module, load, same_numbers

from lowering.stablehlo import (
    Module,
    UnknownCompositeError,
    UnsupportedOperationError,
    clean,
    decompose,
)


def left(module: Module) -> set[str]:
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
        after = decompose(before, **options)
        assert left(after) == remaining
        assert " call @" not in after.text
        # One function for each composite that is left, and main.
        assert after.text.count("func.func") == 1 + len(remaining)
        same_numbers(before, after)


def test_calls_that_were_there_before_stay() -> None:
    text = (
        load("block").text.rstrip().removesuffix("}")
        + """
        func.func @other(%x: tensor<2xf32>) -> tensor<2xf32> {
          %0 = call @mine(%x) : (tensor<2xf32>) -> tensor<2xf32>
          return %0 : tensor<2xf32>
        }
        func.func private @mine(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }}
    """
    )
    assert "call @mine" in decompose(Module.parse(text)).text


def test_the_training_step_decomposes() -> None:
    before = clean(load("transformer_step_torch_xla_2_9"))
    after = decompose(before, only="*_backward")
    assert left(after) == {"ptxla.gelu", "ptxla.softmax"}
    same_numbers(before, after, tolerance=1e-6)


def test_a_name_that_matches_nothing_lists_what_there_is() -> None:
    for options in ({"only": "acme.twise"}, {"keep": "acme.twise"}):
        with pytest.raises(UnknownCompositeError) as caught:
            decompose(load("block"), **options)
        assert str(caught.value) == (
            "no composite matches 'acme.twise'; the module has: acme.tanh, acme.twice,"
            " ptxla.outer; did you mean 'acme.twice'?"
        )
    module = load("plain_calls")
    assert decompose(module) is module
    with pytest.raises(UnknownCompositeError) as caught:
        decompose(module, only="acme.*")
    assert str(caught.value) == "no composite matches 'acme.*'; the module has none"


BODY = "(%arg0: tensor<f32>) -> tensor<f32> {\n    return %arg0 : tensor<f32>\n  }"


def one_composite(text: str = '"v"') -> Module:
    return composite_module("x.y", "tensor<f32>", attributes=f"{{k = {text}}}")


def test_a_decomposition_that_is_a_declaration() -> None:
    text = one_composite().text
    assert BODY in text
    module = Module.parse(text.replace(BODY, "(tensor<f32>) -> tensor<f32>"))
    with pytest.raises(UnsupportedOperationError) as caught:
        decompose(module)
    assert str(caught.value) == (
        "@impl, the decomposition of x.y, is a declaration; give it a body, or keep the composite"
        " (--keep x.y)"
    )
    assert left(decompose(module, keep="x.y")) == {"x.y"}
