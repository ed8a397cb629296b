"""The cost benchmark runs and prints its tables; what it measures is not for a test to judge."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from composites_testing.processes import run

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.exhaustive
def test_prints_tables_and_writes_both_files(tmp_path: Path) -> None:
    as_json, as_markdown = tmp_path / "cost.json", tmp_path / "cost.md"
    arguments = ["--counts", "2", "--repeats", "2"]
    files = ["--json", str(as_json), "--markdown", str(as_markdown)]
    process = run(
        *(sys.executable, "-m", "benchmarks.cost", *arguments, *files),
        cwd=REPOSITORY,
        XLA_COMPOSITE_OP="all",
        COLUMNS="120",
    )
    assert process.code == 0, process.stderr
    for part in ("2 gelu, forward: 2 composites", "HLO bytes", "cached step", "torch_xla 2."):
        assert part in process.stdout
    rows = json.loads(as_json.read_text())["rows"]
    assert {row["workload"] for row in rows} == {"2 gelu, forward", "2 gelu, forward + backward"}
    assert all(row["blocks"]["stock"] and row["blocks"]["composites"] for row in rows)
    assert "## 2 gelu, forward + backward: 3 composites" in as_markdown.read_text()
