"""flatten_scatter_indices: the same bits with one i32 index for each row, none of them outside."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from composites_testing.scatters import FORMS, arguments, scatter

from lowering.stablehlo import Module, flatten_scatter_indices, run

STAYS = {
    "unsigned": scatter("rows", "add", index="ui64"),
    "sharded": scatter("rows", "add", attributes='mhlo.sharding = "{replicated}"'),
    "another combination": scatter("rows", "subtract"),
    "dynamic": Module.parse(scatter("rows", "add").text.replace("tensor<6x", "tensor<?x")),
}


def is_same(module: Module, changed: Module, given: list[Any]) -> bool:
    (want,), (found,) = run(module, *given), run(changed, *given)
    assert not np.array_equal(want, given[0])
    return bool(want.tobytes() == found.tobytes())


@pytest.mark.parametrize("combination", ["add", "", "maximum"])
@pytest.mark.parametrize("form", FORMS)
def test_the_bits_stay(form: str, combination: str) -> None:
    module = scatter(form, combination)
    flat = flatten_scatter_indices(module)
    flat.verify()
    (indices,) = re.findall(r"\}\) : \(tensor<\d+x\d+xf32>, tensor<(\w+)>", flat.text)
    assert indices.endswith("x1xi32")
    assert is_same(module, flat, arguments(form, np.float32))


@pytest.mark.parametrize("combination", ["add", "multiply", "minimum", "maximum", ""])
@pytest.mark.parametrize(
    ("element", "dtype"),
    [("f64", np.float64), ("bf16", ml_dtypes.bfloat16), ("i32", np.int32), ("ui8", np.uint8)],
)
def test_all_types_keep_their_bits(element: str, dtype: Any, combination: str) -> None:
    module = scatter("two dimensions", combination, element, "i32")
    given = arguments("two dimensions", dtype, "i32")
    given[0], given[2] = abs(given[0]), abs(given[2])
    assert is_same(module, flatten_scatter_indices(module), given)


@pytest.mark.parametrize(("index", "dtype"), [("ui32", np.uint32), ("ui8", np.uint8)])
def test_unsigned_indices(index: str, dtype: Any) -> None:
    module = scatter("rows", "add", index=index)
    given = arguments("rows", np.float32)
    given[1] = np.array([[0], [7], [8], [200], [7], [2]], dtype)
    assert is_same(module, flatten_scatter_indices(module), given)


def test_a_zero_keeps_its_sign_where_an_index_is_outside() -> None:
    module = scatter("vector", "add")
    given = [np.full(9, -0.0, np.float32), np.full((6, 1), 9), np.ones(6, np.float32)]
    (found,) = run(flatten_scatter_indices(module), *given)
    assert np.signbit(found).all()


@pytest.mark.parametrize("name", STAYS)
def test_others_stay(name: str) -> None:
    assert flatten_scatter_indices(STAYS[name]).text == STAYS[name].text
