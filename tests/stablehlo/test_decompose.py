"""decompose: by name, by glob, all but some, and what happens to a name that is not there."""

import re
from collections.abc import Callable

import pytest

from lowering.stablehlo import Module, UnknownCompositeError, clean, decompose

Load = Callable[[str], Module]


def left(module: Module) -> set[str]:
    return set(re.findall(r'stablehlo\.composite "([\w.]+)"', module.text))


@pytest.mark.parametrize(
    ("options", "remaining"),
    [
        ({}, set()),
        ({"only": "acme.twice"}, {"acme.tanh", "ptxla.outer"}),
        ({"only": "acme.*"}, {"ptxla.outer"}),
        ({"only": ["ptxla.outer"]}, {"acme.twice", "acme.tanh"}),
        ({"keep": "ptxla.*"}, {"ptxla.outer"}),
        ({"only": "acme.*", "keep": ["acme.tanh"]}, {"acme.tanh", "ptxla.outer"}),
        ({"keep": "*"}, {"acme.twice", "acme.tanh", "ptxla.outer"}),
    ],
)
def test_only_and_keep(
    options: dict[str, str | list[str]],
    remaining: set[str],
    load: Load,
    same_numbers: Callable[..., None],
) -> None:
    before = load("block")
    after = decompose(before, **options)
    assert left(after) == remaining
    assert " call @" not in after.text
    # One function for each composite that is left, and main.
    assert after.text.count("func.func") == 1 + len(remaining)
    same_numbers(before, after)


def test_calls_that_were_there_before_stay(load: Load) -> None:
    text = load("block").text.rstrip().removesuffix("}")
    text += (
        "func.func @other(%x: tensor<2xf32>) -> tensor<2xf32> {\n"
        "  %0 = call @mine(%x) : (tensor<2xf32>) -> tensor<2xf32>\n  return %0 : tensor<2xf32>\n}\n"
        "func.func private @mine(%x: tensor<2xf32>) -> tensor<2xf32> {\n"
        "  return %x : tensor<2xf32>\n}\n}"
    )
    assert "call @mine" in decompose(Module.parse(text)).text


def test_the_training_step_decomposes(load: Load, same_numbers: Callable[..., None]) -> None:
    before = clean(load("transformer_step_torch_xla_2_9"))
    after = decompose(before, only="*_backward")
    assert left(after) == {"ptxla.gelu", "ptxla.softmax"}
    same_numbers(before, after, tolerance=1e-6)


@pytest.mark.parametrize("option", ["only", "keep"])
def test_a_name_that_matches_nothing_lists_what_there_is(option: str, load: Load) -> None:
    with pytest.raises(UnknownCompositeError) as caught:
        decompose(load("block"), **{option: "acme.twise"})
    assert str(caught.value) == (
        "no composite matches 'acme.twise'; the module has: acme.tanh, acme.twice, ptxla.outer; "
        "did you mean 'acme.twice'?"
    )


def test_without_composites_there_is_nothing_to_do(load: Load) -> None:
    module = load("plain_calls")
    assert decompose(module) is module
    with pytest.raises(UnknownCompositeError) as caught:
        decompose(module, only="acme.*")
    assert str(caught.value) == "no composite matches 'acme.*'; the module has none"
