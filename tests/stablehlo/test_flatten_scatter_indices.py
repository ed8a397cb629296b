"""flatten_scatter_indices: the same bits with one i32 index for each row, none of them outside."""

import re
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from composites_testing.passes import stay
from composites_testing.scatters import FORMS, arguments, not_sums, scatter

from lowering.stablehlo import Module, run
from lowering.stablehlo.passes.scatters import flatten_scatter_indices


def is_same(module: Module, operands: list[Any]) -> str:
    """The text after the pass, with which the results have the same bits."""
    flat = flatten_scatter_indices(module)
    flat.verify()
    (expected,), (actual,) = run(module, *operands), run(flat, *operands)
    assert not np.array_equal(expected, operands[0])
    assert expected.tobytes() == actual.tobytes()
    return flat.text


@pytest.mark.parametrize("combination", ["add", "", "maximum"])
def test_the_bits_stay(combination: str) -> None:
    for form in FORMS:
        text = is_same(scatter(form, combination), arguments(form, np.float32))
        (indices,) = re.findall(r"\}\) : \(tensor<\d+x\d+xf32>, tensor<(\w+)>", text)
        assert indices.endswith("x1xi32"), form


def test_all_types_keep_their_bits() -> None:
    types = {"f64": np.float64, "bf16": ml_dtypes.bfloat16, "i32": np.int32, "ui8": np.uint8}
    for element, combination in product(types, ("add", "multiply", "minimum", "maximum", "")):
        operands = arguments("two dimensions", types[element], "i32")
        operands[0], operands[2] = abs(operands[0]), abs(operands[2])
        is_same(scatter("two dimensions", combination, element, "i32"), operands)
    for index, dtype in (("ui32", np.uint32), ("ui8", np.uint8)):
        operands = arguments("rows", np.float32)
        operands[1] = np.array([[0], [7], [8], [200], [7], [2]], dtype)
        is_same(scatter("rows", "add", index=index), operands)


def test_a_zero_keeps_its_sign_where_an_index_is_outside() -> None:
    module = scatter("vector", "add")
    operands = [np.full(9, -0.0, np.float32), np.full((6, 1), 9), np.ones(6, np.float32)]
    (result,) = run(flatten_scatter_indices(module), *operands)
    assert np.signbit(result).all()


def test_others_stay() -> None:
    unsigned = scatter("rows", "add", index="ui64")
    stay(flatten_scatter_indices, [*not_sums("subtract"), unsigned])
