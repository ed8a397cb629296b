"""rename_decompositions: names by composite, numbers and positions by first use."""

import re

from composites_testing.passes import load, same_numbers

from lowering.stablehlo import Module, flatten_calls, rename_decompositions


def names(module: Module) -> list[str]:
    return re.findall(r"func\.func (?:private )?@([\w.]+)", module.text)


def test_names_and_order_follow_first_use() -> None:
    before = load("nested_duplicates")
    after = rename_decompositions(before)
    assert names(after) == [
        "main", "acme.outer.impl", "acme.outer.impl_0", "acme.inner.impl", "acme.other.impl",
        "acme.inner.impl_0", "acme.inner.impl_1",
    ]  # fmt: skip
    same_numbers(before, after)


def test_a_name_that_is_taken_is_not_used_again() -> None:
    text = flatten_calls(load("wrapped_gelu")).text.replace("@main", "@ptxla.gelu.impl")
    after = rename_decompositions(Module.parse(text))
    assert names(after) == [f"ptxla.gelu.impl{number}" for number in ("", "_0", "_1", "_2")]


def test_functions_that_are_called_keep_their_names() -> None:
    module = load("plain_calls")
    assert rename_decompositions(module).text == module.text
