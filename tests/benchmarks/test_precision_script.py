"""Products with a wide result are as exact as their accumulator; the page has what was found."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[2]
SIZES = (64, 256)
F32_EPSILON = 2.0**-23


@pytest.fixture(scope="module")
def precision() -> ModuleType:
    return importlib.import_module("benchmarks.precision")


@pytest.fixture(scope="module")
def measured(precision: ModuleType) -> Any:
    return precision.measure(SIZES, (1, 3))


def of(rows: list[Any], who: str) -> list[Any]:
    found = [row for row in rows if row.way.who == who]
    assert found
    return found


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_the_error_is_that_of_a_sum_in_f32(measured: Any, dtype: str) -> None:
    rows = measured.floats[dtype]
    (eager,) = of(rows, "eager CPU")
    for row in of(rows, "this project"):
        assert row.errors.keys() == set(SIZES)
        for size, error in row.errors.items():
            assert error.norm <= size**0.5 * F32_EPSILON
            assert error.norm < eager.errors[size].norm / 100
            assert error.largest < eager.errors[size].largest / 100


def test_a_stock_product_that_is_read_later_is_rounded(measured: Any) -> None:
    (row,) = [r for r in measured.floats["bf16"] if r.way.code.endswith(".float() later")]
    assert all(error.norm > 1e-3 for error in row.errors.values())


def test_no_element_of_an_int8_product_is_wrong(measured: Any) -> None:
    for row in of(measured.integers, "this project"):
        assert row.wrong == dict.fromkeys(SIZES, 0)
    eager, refused, _ = of(measured.integers, "eager CPU")
    assert all(eager.wrong.values())
    assert set(refused.wrong.values()) == {None}


def test_programs_hold_one_product_and_no_cast(measured: Any) -> None:
    for row in of(measured.programs, "this project"):
        assert (row.product, row.casts, row.cast_bytes) == ("(bf16, bf16) → f32", 0, 0)
    assert all(row.casts for row in of(measured.programs, "stock XLA"))


def test_gradients_are_rounded_to_bf16_and_no_more(measured: Any) -> None:
    ours = of(measured.gradients, "this project")
    assert {row.loss for row in ours} == {"weighted sum", "cross entropy"}
    assert all(error.norm < 2.0**-8 for row in ours for error in row.errors)


def test_accumulated_weight_gradients_are_closer_than_stock(measured: Any) -> None:
    assert [(row.model, row.batches) for row in measured.accumulated] == [
        ("one linear layer", 1),
        ("one linear layer", 3),
        ("llama", 1),
        ("llama", 3),
    ]
    assert all(row.ours < row.stock for row in measured.accumulated)
    assert all(row.ours < 1e-6 for row in measured.accumulated if row.model != "llama")


def test_nothing_stays_on(measured: Any) -> None:
    import composites

    assert not composites.active()


def test_the_page_has_every_row_and_no_path(precision: ModuleType, measured: Any) -> None:
    written = precision.tables(measured)
    page = precision.page(written, measured, "precision.svg")
    assert "](precision.svg)" in page
    assert page.count("| this project | `torch.mm(a, b, out_dtype=torch.float32)` |") == 5
    assert "| this project | `torch.mm(a, b, out_dtype=torch.int32)` | 0 | 0 |" in page
    assert "| weighted sum | this project |" in page
    assert "| llama | 3 |" in page
    assert str(REPOSITORY) not in page
    for lines in written.values():
        assert {len(row) for row in lines.body} == {len(lines.head)}


def test_the_same_numbers_give_the_same_picture(
    precision: ModuleType, measured: Any, tmp_path: Path
) -> None:
    one, other = tmp_path / "one.svg", tmp_path / "other.svg"
    precision.plot(measured.floats, one)
    precision.plot(measured.floats, other)
    assert one.read_bytes() == other.read_bytes()
    assert str(tmp_path) not in one.read_text()


def test_the_page_in_docs_is_of_this_text(precision: ModuleType, measured: Any) -> None:
    """Without tables and versions, which depend on where they were made."""
    fresh = precision.page(precision.tables(measured), measured, "precision.svg")
    kept = (REPOSITORY / "docs" / "precision.md").read_text()
    assert _prose(fresh) == _prose(kept)


def _prose(page: str) -> list[str]:
    left_out = ("|", "with torch ", "The StableHLO of each")
    return [line for line in page.splitlines() if not line.startswith(left_out)]
