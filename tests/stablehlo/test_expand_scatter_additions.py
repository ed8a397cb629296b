"""expand_scatter_additions: sums by comparisons and products, in each form."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from composites_testing.scatters import FORMS, arguments, scatter

from lowering.stablehlo import Module, expand_scatter_additions, run
from lowering.stablehlo.passes import expand_scatter_additions as sizes

STAYS = {
    "replaces": scatter("rows", ""),
    "sharded": scatter("rows", "add", attributes='mhlo.sharding = "{replicated}"'),
    "another combination": scatter("rows", "subtract"),
    "dynamic": Module.parse(scatter("rows", "add").text.replace("tensor<6x", "tensor<?x")),
}


@pytest.fixture(params=["selected", "products"])
def form_of_sums(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "products":
        monkeypatch.setattr(sizes, "FEW", 0)
    return str(request.param)


def check(module: Module, given: list[Any], tolerance: float) -> str:
    """The text of the expanded module, whose numbers agree."""
    expanded = expand_scatter_additions(module)
    expanded.verify()
    (want,), (found,) = run(module, *given), run(expanded, *given)
    assert found.dtype == want.dtype
    want, found = (np.asarray(each, np.float64) for each in (want, found))
    np.testing.assert_allclose(found, want, rtol=0, atol=tolerance)
    assert not np.array_equal(want, np.asarray(given[0], np.float64))
    return expanded.text


@pytest.mark.parametrize("form", FORMS)
def test_sums(form: str, form_of_sums: str) -> None:
    text = check(scatter(form, "add"), arguments(form, np.float32), 1e-5)
    assert ("stablehlo.dot_general" in text) == (form_of_sums == "products")
    assert "stablehlo.add %arg" not in text.partition("stablehlo.scatter")[2]


def test_more_updates_than_rows_need_no_scatter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "FEW", 0)
    for form, replaces in (("many", False), ("batches", True)):
        text = check(scatter(form, "add"), arguments(form, np.float32), 1e-5)
        assert ("stablehlo.scatter" in text) == replaces


@pytest.mark.parametrize(
    ("element", "dtype", "tolerance"),
    [("f64", np.float64, 1e-12), ("f16", np.float16, 0.05), ("bf16", ml_dtypes.bfloat16, 0.5)],
)
def test_types_of_floats(element: str, dtype: Any, tolerance: float, form_of_sums: str) -> None:
    module = scatter("two dimensions", "add", element, "i32")
    check(module, arguments("two dimensions", dtype, "i32"), tolerance)


@pytest.mark.parametrize("combination", ["add", "multiply", "minimum", "maximum"])
def test_integers_are_selected(combination: str) -> None:
    given = arguments("rows", np.int32)
    assert "stablehlo.scatter" not in check(scatter("rows", combination, "i32"), given, 0)


@pytest.mark.parametrize("name", STAYS)
def test_others_stay(name: str) -> None:
    assert expand_scatter_additions(STAYS[name]).text == STAYS[name].text


def test_integers_that_are_too_many_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "FEW", 0)
    module = scatter("rows", "add", "i32")
    assert expand_scatter_additions(module).text == module.text
