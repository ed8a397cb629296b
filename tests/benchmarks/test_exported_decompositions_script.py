"""`python -m benchmarks.exported_decompositions`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from composites_testing.processes import run

from benchmarks.exported_decompositions import HEAD, Row, lines

REPOSITORY = Path(__file__).parents[2]


def test_what_a_row_says() -> None:
    blocks = {"stock": [[4.0], [5.0]], "fast": [[2.0], [2.0]]}
    row = Row("attention", "jax", blocks, {"stock": 1.0, "fast": 1.5}, 2e-7)
    cells = dict(zip(HEAD, row.cells, strict=True))
    assert (cells["faster"], cells["middle half"]) == ("2.25", "2.12 to 2.38")
    assert (cells["difference"], cells["bar"]) == ("2e-07", "1.0 met")
    slower = Row("attention", "jax", {"stock": [[2.0]], "fast": [[4.0]]}, row.compiles, 0.0)
    assert slower.cells[-1] == "1.0 missed"
    assert f"| {' | '.join(row.cells)} |" in lines([row])


def test_unknown_rows_and_consumers_are_named() -> None:
    for option, value, message in (
        ("--names", "atention", "no row begins with 'atention'; there are attention, L = 1024;"),
        ("--consumers", "tvm", "no consumer tvm; there are jax, iree"),
    ):
        command = (sys.executable, "-m", "benchmarks.exported_decompositions", option, value)
        process = run(*command, cwd=REPOSITORY)
        assert process.code == 2
        assert message in process.stderr


@pytest.mark.exhaustive
def test_a_row_runs(tmp_path: Path) -> None:
    results = tmp_path / "rows.jsonl"
    command = (sys.executable, "-m", "benchmarks.exported_decompositions", "--names", "U-Net")
    options = ("--repeats", "1", "--budget", "1", "--results", str(results))
    done = run(*command, *options, cwd=REPOSITORY)
    assert done.code == 0, done.stderr
    found = [json.loads(line) for line in results.read_text().splitlines()]
    assert [row["consumer"] for row in found] == ["jax", "iree"]
    assert all(row["difference"] < 1e-3 for row in found)
