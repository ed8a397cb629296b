"""What all scripts measure with: blocks of samples, processes of their own, products, choices."""

from __future__ import annotations

import gc
import os

import pytest

from benchmarks.pages import markdown_table
from benchmarks.processes import alone, environment, xla_flags
from benchmarks.selection import beginning
from benchmarks.timing import (
    SAMPLES_PER_BLOCK,
    affordable,
    alternated,
    milliseconds,
    no_garbage_collection,
    ratio,
)


def test_a_ratio_is_that_of_neighbouring_blocks() -> None:
    """The machine is twice as slow in the second pair; the ratio is not."""
    first, second = [[1.0, 9.0], [2.0, 2.5], [1.0, 1.5]], [[1.1, 1.2], [2.4, 3.0], [1.0, 1.0]]
    found = ratio(first, second)
    assert (found.lower, found.median, found.upper) == pytest.approx((1.05, 1.1, 1.15))
    assert found.middle_half == "1.05 to 1.15"
    alone = ratio([[2.0]], [[3.0]])
    assert (alone.lower, alone.median, alone.upper) == (1.5, 1.5, 1.5)
    for ratios, verdict in (
        ((1.0, 1.02, 1.0), "met"),
        ((1.2, 1.0, 1.1), "~"),
        ((1.2, 1.1, 1.1), "missed"),
    ):
        measured = ratio([[1.0]] * 3, [[each] for each in ratios])
        assert (measured.verdict(1.05), measured.verdict(None)) == (verdict, "")


@pytest.mark.slow
def test_sides_alternate_in_turned_order_without_garbage_collection() -> None:
    calls: list[str] = []

    def counted(name: str, samples: int) -> list[float]:
        assert samples == SAMPLES_PER_BLOCK
        assert not gc.isenabled()
        calls.append(name)
        return [1.0]

    blocks = alternated([lambda n: counted("a", n), lambda n: counted("b", n)], 3)
    assert "".join(calls) == "abbaab"
    assert [len(each) for each in blocks] == [3, 3]
    with pytest.raises(ValueError, match="planted"), no_garbage_collection():
        raise ValueError("planted")
    assert gc.isenabled()
    assert affordable(0.1, 4.0, 3, 50) == (10, SAMPLES_PER_BLOCK)
    assert affordable(60.0, 4.0, 3, 5) == (3, 1)


def test_texts_of_a_page() -> None:
    times = [milliseconds(seconds) for seconds in (0.00123, 0.0456, 0.789, 12.3)]
    assert times == ["1.23 ms", "45.6 ms", "789 ms", "12,300 ms"]
    assert markdown_table(("entry", "ratio"), [("gelu", "1.00")], numbers=[1]) == [
        *("| entry | ratio |", "|---|--:|", "| gelu | 1.00 |"),
    ]
    names = ("attention, L = 1024", "attention, L = 4096", "step of GPT-2")
    assert beginning(names, "step,attention, L = 1024") == [names[0], names[2]]
    assert (beginning(names, ""), beginning(names, "nothing")) == (list(names), [])


def test_a_process_starts_with_its_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPOSITES_GIVEN", "1")
    with environment({"COMPOSITES_GIVEN": "2", "XLA_FLAGS": "-"}):
        assert alone(os.getenv, "COMPOSITES_GIVEN") == "2"
        assert xla_flags("--two") == {"XLA_FLAGS": "- --two"}
    with pytest.raises(ZeroDivisionError), environment({"COMPOSITES_GIVEN": "2"}):
        alone(divmod, 1, 0)
    assert os.environ["COMPOSITES_GIVEN"] == "1"
