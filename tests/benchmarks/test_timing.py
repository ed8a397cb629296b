"""Ratios of two sides, from samples in alternating blocks."""

from __future__ import annotations

import gc

import pytest

from benchmarks.timing import (
    SAMPLES_PER_BLOCK,
    affordable,
    alternated,
    milliseconds,
    no_garbage_collection,
    ratio,
    typical,
)


def test_a_ratio_is_that_of_neighbouring_blocks() -> None:
    """The machine is twice as slow in the second pair; the ratio is not."""
    first, second = [[1.0, 9.0], [2.0, 2.5], [1.0, 1.5]], [[1.1, 1.2], [2.4, 3.0], [1.0, 1.0]]
    found = ratio(first, second)
    assert found.median == pytest.approx(1.1)
    assert found.lower == pytest.approx(1.05)
    assert found.upper == pytest.approx(1.15)
    assert found.middle_half == "1.05 to 1.15"
    assert typical(second) == 1.1


def test_one_pair_of_blocks_has_no_quartiles_of_its_own() -> None:
    found = ratio([[2.0]], [[3.0]])
    assert (found.lower, found.median, found.upper) == (1.5, 1.5, 1.5)


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [((1.0, 1.02, 1.0), "met"), ((1.2, 1.0, 1.1), "~"), ((1.2, 1.1, 1.1), "missed")],
)
def test_a_miss_counts_if_the_quartiles_confirm_it(ratios: tuple[float, ...], verdict: str) -> None:
    found = ratio([[1.0]] * len(ratios), [[each] for each in ratios])
    assert found.verdict(1.05) == verdict
    assert found.verdict(None) == ""


def test_sides_alternate_in_turned_order_without_garbage_collection() -> None:
    calls: list[str] = []

    def side(name: str) -> list[float]:
        assert not gc.isenabled()
        calls.append(name)
        return [1.0]

    def counted(name: str, samples: int) -> list[float]:
        assert samples == SAMPLES_PER_BLOCK
        return side(name)

    blocks = alternated([lambda n: counted("a", n), lambda n: counted("b", n)], 3)
    assert "".join(calls) == "abbaab"
    assert [len(each) for each in blocks] == [3, 3]
    assert gc.isenabled()


def test_long_steps_have_fewer_samples() -> None:
    assert affordable(0.1, 4.0, 3, 50) == (10, SAMPLES_PER_BLOCK)
    assert affordable(0.1, 4.0, 3, 5) == (5, SAMPLES_PER_BLOCK)
    assert affordable(60.0, 4.0, 3, 5) == (3, 1)


def test_garbage_is_collected_again_after_an_error() -> None:
    with pytest.raises(ValueError, match="planted"), no_garbage_collection():
        raise ValueError("planted")
    assert gc.isenabled()


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.00123, "1.23 ms"), (0.0456, "45.6 ms"), (0.789, "789 ms"), (12.3, "12,300 ms")],
)
def test_times_have_three_digits(value: float, text: str) -> None:
    assert milliseconds(value) == text
