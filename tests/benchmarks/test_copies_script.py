"""What `benchmarks/copies.py` prints."""

from __future__ import annotations

from benchmarks.copies import report
from composites.registry.validation import parse_registry
from lowering.copies.search import Copy


def test_the_lines_that_are_printed() -> None:
    registry = parse_registry(
        "schema: 1\nnamespace: acme\ncomposites:\n"
        "  a: {function: 'm:a', copies: m, operands: [x]}\n"
        "  b: {function: 'm:b', copies: m, operands: [x]}\n",
        "acme.yaml",
    )
    a, b = registry.composites
    copies = [Copy("m:f", (a,)), Copy("m:C.e", (a, b))]
    lines = list(report(copies, ["importing n failed"], every=True))
    assert lines == [
        "a: 2 functions", "  m:C.e", "  m:f", "b: 1 functions", "  m:C.e",
        "not searched: importing n failed",
    ]  # fmt: skip
    assert list(report(copies, [], every=False)) == ["a: 2 functions", "b: 1 functions"]
