"""benchmarks/FRONTENDS.md holds its bars: an export with fx beside one with torch_xla."""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).parents[2] / "benchmarks" / "FRONTENDS.md"
MOST_TIME, MOST_BYTES = 3.0, 1.3


def test_every_model_holds_the_bars() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in lines if line[:1] == "|"
    ]
    measured = [row for row in rows[2:] if row[1].endswith(" s")]
    assert len(measured) >= 50
    for model, _, _, time, size, same, *_ in measured:
        assert float(time) <= MOST_TIME, model
        assert float(size) <= MOST_BYTES, model
        assert same.endswith(", the same"), model
    failed = {row[0] for row in rows[2:]} - {row[0] for row in measured}
    assert failed <= {"resnet", "clip"}  # one frontend or both refuse them, and the page says why
