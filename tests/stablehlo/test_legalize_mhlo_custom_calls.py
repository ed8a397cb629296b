"""legalize_mhlo_custom_calls: what XLA hid in custom calls, by rule and by number."""

import math

import numpy as np
import pytest
from composites_testing.passes import load, program

from lowering.stablehlo import legalize_chlo, run
from lowering.stablehlo.passes.chlo import legalize_mhlo_custom_calls

UNARY = ("acos", "acosh", "asin", "asinh", "atanh", "cosh", "erf", "sinh", "tan")


def test_numbers() -> None:
    x = np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32)
    x[1, 2] = np.inf
    before = legalize_mhlo_custom_calls(load("mhlo_calls"))
    assert "mhlo." not in before.text
    assert "chlo.erf %arg0 : tensor<3x8xf32> -> tensor<3x8xf32>" in before.text
    assert "chlo.top_k(%arg0, k = 2)" in before.text
    for module in (before, legalize_chlo(before)):
        erf, largest, largest_at, smallest, smallest_at = run(module, x)
        order = np.argsort(x, axis=-1, kind="stable")
        np.testing.assert_allclose(erf[0, 0], math.erf(x[0, 0]), rtol=1e-5)
        np.testing.assert_array_equal(largest_at, order[:, :-3:-1])
        np.testing.assert_array_equal(largest, np.take_along_axis(x, largest_at, -1))
        np.testing.assert_array_equal(smallest_at, order[:, :2])
        np.testing.assert_array_equal(smallest, np.take_along_axis(x, smallest_at, -1))


@pytest.mark.parametrize("name", UNARY)
def test_unary_custom_calls_become_chlo(name: str) -> None:
    options = "{mhlo.attributes = {}, mhlo.version = 1 : i64}"
    call = f"%r = stablehlo.custom_call @mhlo.{name}(%x) {options}"
    body = f"{call} : (tensor<4xf32>) -> tensor<4xf32>"
    after = legalize_mhlo_custom_calls(program(body, "%x: tensor<4xf32>", "tensor<4xf32>"))
    assert f"chlo.{name} %arg0 : tensor<4xf32> -> tensor<4xf32>" in after.text
    x = np.array([0.1, 0.5, -0.3, 0.9], np.float32)
    numpy_name = name.replace("acos", "arccos").replace("asin", "arcsin").replace("atan", "arctan")
    if name == "erf":
        expected = np.array([math.erf(value) for value in x])
    else:
        x = 1 + np.abs(x) if name == "acosh" else x
        expected = getattr(np, numpy_name)(x)
    for module in (after, legalize_chlo(after)):
        np.testing.assert_allclose(run(module, x)[0], expected, rtol=2e-5)
