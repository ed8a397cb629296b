"""What the pages of benchmarks say of composites: products and collectives."""

import importlib
from pathlib import Path
from typing import Any

import pytest

from benchmarks.sharding import MEMORY, rows_of
from benchmarks.sharding_cases import CASES

REPOSITORY = Path(__file__).parents[2]
HELD = [case.name for case in CASES if case.held and not case.name.startswith("step")]
STEPS = [case.name for case in CASES if case.held and case.name.startswith("step")]


@pytest.mark.parametrize(
    ("devices", "names"),
    [
        pytest.param(4, HELD, marks=pytest.mark.slow),
        *(
            pytest.param(*case, marks=pytest.mark.exhaustive)
            for case in ((8, HELD), (4, STEPS), (8, STEPS))
        ),
    ],
)
def test_no_more_collectives_than_stock(devices: int, names: list[str]) -> None:
    # Four key heads cannot be shared out equally to eight devices. Composites have 6 all-reduces
    # then, and stock 3 collectives, after which each of its devices computes everything.
    held = [name for name in names if devices == 4 or "grouped" not in name]
    for row in rows_of(held, devices):
        stock, ours = row.stock.traffic, row.composites.traffic
        assert (ours.total <= stock.total, ours.bytes <= stock.bytes) == (True, True), row
        assert row.error <= (2e-6 if names is STEPS else 1e-6), row
        if names is HELD:
            assert row.composites.sharded >= row.stock.sharded, row
        # GPT-2 in FSDP sends a quarter less: stock's layer norms gather the batch, so that its
        # gradients of three matrices come out divided.
        limit = 1.09 if row.name == "step of GPT-2, FSDP" else MEMORY
        assert row.composites.memory <= limit * row.stock.memory, row
        if row.name.startswith("attention, heads"):
            assert (stock.counts["all-gather"], ours.total) == (3, 0)
        if names is STEPS and row.name.endswith((", tensor", ", 2-D")):
            assert stock.counts["all-gather"] >= 8
            assert "all-gather" not in ours.counts


@pytest.mark.slow
def test_products_with_a_wide_result_are_as_exact_as_their_accumulator() -> None:
    precision = importlib.import_module("benchmarks.precision")
    measured = precision.measure((64, 256), (1, 3))

    def ours(rows: list[Any], who: str = "this project") -> list[Any]:
        return [row for row in rows if row.way.who == who]

    for dtype in ("bf16", "f16"):
        (eager,) = ours(measured.floats[dtype], "eager CPU")
        for row in ours(measured.floats[dtype]):
            for size, error, of_eager in zip(measured.sizes, row.values, eager.values, strict=True):
                assert error.norm <= min(size**0.5 * 2.0**-23, of_eager.norm / 100)
    for row in ours(measured.integers):
        assert row.values == [0, 0]
    for row in ours(measured.programs):
        assert row.values == ["`(bf16, bf16) → f32`", "0", "0"]
    for row in ours(measured.gradients):
        assert all(error.norm < 2.0**-8 for errors in row.values for error in errors)
    assert all(row.ours < row.stock for row in measured.accumulated)
    fresh = precision.page(measured)
    kept = (REPOSITORY / "docs" / "precision.md").read_text(encoding="utf-8")
    assert _prose(fresh) == _prose(kept)


def _prose(page: str) -> list[str]:
    """Without tables and versions, which depend on where they were made."""
    left_out = ("|", "with torch ", "The StableHLO of each")
    return [line for line in page.splitlines() if not line.startswith(left_out)]
