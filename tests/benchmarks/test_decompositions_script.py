"""Alternatives beside stock's decompositions: the rows, the page, and a tiny run."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from composites_testing.processes import run

from benchmarks import memory
from benchmarks.calls import builtin_entries
from benchmarks.decomposition_cases import ALL, ROWS, Comparison, comparisons
from benchmarks.decompositions import Row, lines, markdown, plot, sides_of

REPOSITORY = Path(__file__).parents[2]


def test_every_alternative_of_the_registry_has_a_row() -> None:
    built_in = builtin_entries()
    rows = comparisons()
    named = {name for row in rows for name in row.entries if row.entries != ALL}
    reached = named | {built_in[name].backward for name in named}
    assert {name for name, entry in built_in.items() if entry.alternatives} <= reached
    assert len({row.name for row in rows}) == len(rows)
    assert [row.name for row in rows if row.entries == ALL]
    for row in ROWS:
        assert row.entries == ALL or set(row.entries) <= set(built_in)


def test_stock_runs_where_it_can() -> None:
    by_name = {row.name: row for row in ROWS}
    assert sides_of(by_name["attention, L = 4096"])[0] == "stock"
    assert "stock" not in sides_of(by_name["attention, L = 32768"])


@pytest.fixture
def row() -> Row:
    return Row(
        "attention",
        {"stock": [[4.0], [4.0]], "fast": [[1.0], [1.6]], "eager": [[2.0], [2.0]]},
        {"stock": 1.0, "fast": 1.5},
        {"stock": 1000_000_000, "fast": 90_000_000},
        {"stock": 2000_000_000, "fast": 1000_000_000},
        ("scaled_dot_product_attention=blockwise",),
    )


@pytest.fixture
def comparison() -> Comparison:
    return replace(ROWS[0], faster=4.0, smaller=0.1, compiles=1.3)


def test_lines_have_ratios_and_bars(row: Row, comparison: Comparison) -> None:
    stock, fast, eager = lines(row, comparison)
    assert stock[1:4] == ("stock", "4,000 ms", "")
    assert fast[1:4] == ("fast", "1,300 ms", "3.25")
    assert fast[5:10] == ("90 MB", "0.09", "1,000 MB", "1.50 s", "1.50")
    assert fast[10] == ("time >= 4 missed (3.25); memory <= 0.1 met; compile <= 1.3 missed (1.50)")
    assert eager[1:4] == ("eager", "2,000 ms", "2.00")
    assert eager[5] == ""


def test_the_page_and_the_plot(row: Row, comparison: Comparison, tmp_path: Path) -> None:
    page = markdown([(row, comparison)], ["A note."], "a.svg")
    assert "- attention: scaled_dot_product_attention=blockwise" in page
    table = [line for line in page.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in table}) == 1
    without_stock = replace(row, name="long", blocks={"fast": [[1.0], [1.0]]})
    assert next(lines(without_stock, comparison))[3] == ""
    plot([row, without_stock], tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    assert "attention" in text
    assert "<!-- long -->" not in text  # it has nothing to be compared with


def test_the_report_of_the_last_program_counts(tmp_path: Path) -> None:
    for number, size in ((2, 10), (10, 30), (9, 20)):
        name = f"module_{number:04d}.Step.{size}.cpu_after_optimizations-memory-usage-report.txt"
        (tmp_path / name).write_text(f"Total bytes used: {size} ({size}B)\n\nAllocations")
    assert memory.of_last_program(tmp_path) == 30
    assert memory.of_last_program(tmp_path / "none") is None


def test_the_peak_is_that_of_this_process() -> None:
    before = memory.peak_of_process()
    held = bytearray(300_000_000)
    after = memory.peak_of_process()
    assert len(held) == 300_000_000
    assert after >= max(before, 300_000_000)


@pytest.mark.exhaustive
def test_small_rows_run(tmp_path: Path) -> None:
    results, page, picture = (tmp_path / name for name in ("rows.jsonl", "page.md", "plot.svg"))
    done = run(
        *(sys.executable, "-m", "benchmarks.decompositions", "--quick", "--repeats", "2"),
        *("--budget", "1", "--results", str(results)),
        *("--markdown", str(page), "--plot", str(picture)),
        cwd=REPOSITORY,
        XLA_COMPOSITE_OP="all",
        XLA_COMPOSITE_DECOMPOSITION="fast",  # stock is stock nevertheless
        COLUMNS="200",
    )
    assert done.code == 0, done.stderr
    attention, step = map(json.loads, results.read_text().splitlines())
    assert set(attention["blocks"]) == {"stock", "fast", "eager"}
    assert attention["buffers"]["fast"] < attention["buffers"]["stock"]
    assert min(attention["compiles"].values()) > 0
    assert "scaled_dot_product_attention=blockwise_long, backward" in attention["taken"]
    assert "cross_entropy_loss=rows" in step["taken"]
    assert "memory <= 0.9 met" in page.read_text()
    assert picture.exists()


@pytest.mark.exhaustive
def test_an_unknown_row_is_named() -> None:
    command = (sys.executable, "-m", "benchmarks.decompositions", "--names", "atention")
    process = run(*command, cwd=REPOSITORY)
    assert process.code == 1
    assert "no row begins with 'atention' (there are attention, L = 1024;" in process.stderr
