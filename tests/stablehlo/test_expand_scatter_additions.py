"""expand_scatter_additions: sums by comparisons and products, in each form."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from composites_testing.passes import stay
from composites_testing.scatters import FORMS, arguments, not_sums, scatter

from lowering.stablehlo import Module, run
from lowering.stablehlo.passes import scatters as sizes


@pytest.fixture(params=["selected", "products"])
def form_of_sums(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "products":
        monkeypatch.setattr(sizes, "FEW", 0)
    return str(request.param)


def check(module: Module, operands: list[Any], tolerance: float) -> str:
    """The text of the expanded module, whose numbers agree."""
    expanded = sizes.expand_scatter_additions(module)
    expanded.verify()
    (expected,), (actual,) = run(module, *operands), run(expanded, *operands)
    assert actual.dtype == expected.dtype
    expected, actual = (np.asarray(result, np.float64) for result in (expected, actual))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance)
    assert not np.array_equal(expected, np.asarray(operands[0], np.float64))
    return expanded.text


def test_sums(form_of_sums: str) -> None:
    for form in FORMS:
        text = check(scatter(form, "add"), arguments(form, np.float32), 1e-5)
        assert ("stablehlo.dot_general" in text) == (form_of_sums == "products"), form
        assert "stablehlo.add %arg" not in text.partition("stablehlo.scatter")[2], form


def test_more_updates_than_rows_need_no_scatter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "FEW", 0)
    for form, replaces in (("many", False), ("batches", True)):
        text = check(scatter(form, "add"), arguments(form, np.float32), 1e-5)
        assert ("stablehlo.scatter" in text) == replaces


def test_types_of_floats(form_of_sums: str) -> None:
    for element, dtype, tolerance in (
        ("f64", np.float64, 1e-12),
        ("f16", np.float16, 0.05),
        ("bf16", ml_dtypes.bfloat16, 0.5),
    ):
        module = scatter("two dimensions", "add", element, "i32")
        check(module, arguments("two dimensions", dtype, "i32"), tolerance)


def test_integers_are_selected() -> None:
    operands = arguments("rows", np.int32)
    for combination in ("add", "multiply", "minimum", "maximum"):
        assert "stablehlo.scatter" not in check(scatter("rows", combination, "i32"), operands, 0)


def test_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    stay(sizes.expand_scatter_additions, [*not_sums("subtract"), scatter("rows", "")])
    monkeypatch.setattr(sizes, "FEW", 0)
    stay(sizes.expand_scatter_additions, [scatter("rows", "add", "i32")])  # they are too many
