"""Every entry is measured beside stock; what is measured is not for a test to judge."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from composites_testing.processes import run

from benchmarks import entries
from benchmarks.calls import Call, builtin_entries
from benchmarks.entries import Failure, Row, markdown, plot
from benchmarks.entry_cases import CASES, NOT_MEASURED

REPOSITORY = Path(__file__).parents[2]


def test_every_entry_is_measured_or_named_with_the_reason() -> None:
    built_in = builtin_entries()
    measured = {case.entry for case in CASES}
    backwards = {built_in[name].backward for name in measured if not built_in[name].derives}
    assert set(built_in) == measured | backwards - {None} | set(NOT_MEASURED)
    assert not measured & set(NOT_MEASURED)


@pytest.mark.parametrize("name", ["gelu", "embedding", "lstm", "binary_cross_entropy"])
def test_calls_have_the_sizes_of_their_rows(name: str) -> None:
    case = next(case for case in CASES if case.entry == name)
    made = case.make()
    assert isinstance(made, Call)
    sizes = {f"{'x'.join(map(str, leaf.shape))}xf32" for leaf in made.leaves}
    assert case.size in sizes
    first = made.placed(lambda tensor: tensor.clone())
    assert [leaf.shape for leaf in first.leaves] == [leaf.shape for leaf in made.leaves]
    assert all(leaf.is_leaf for leaf in first.leaves)


def row(entry: str, ours: float, mode: str = "forward") -> Row:
    blocks = [[1.0], [1.0], [1.0]]
    return Row(entry, "2xf32", mode, (0.1, 0.2), blocks, [[ours]] * 3)  # type: ignore[arg-type]


def test_the_page_names_what_is_above_the_bar() -> None:
    page = markdown([row("gelu", 1.0), row("silu", 1.2), row("mish", 1.5)], ["A note."], "a.svg")
    above = page.partition("## Above the bar")[2].partition("## All")[0]
    assert above.split("\n\n")[1] == "`silu`, `mish`."
    assert "| silu | 2xf32 | forward | 1,000 ms | 1,200 ms | 1.20 | 1.20 to 1.20 |" in page
    assert "](a.svg)" in page
    assert "Not in this run: `hardswish`, `elu`" in page
    assert "None." in markdown([row("gelu", 1.0)], [], None)


def test_a_row_above_the_bar_says_what_its_time_is() -> None:
    traced = replace(row("silu", 1.2), tracing=(0.001, 0.002), on_the_host=("aten::silu",))
    assert (
        traced.cells()[-1] == "above; tracing 1.00 ms -> 2.00 ms; stock runs aten::silu on the host"
    )
    assert row("silu", 1.2).cells()[-1] == "above"
    assert replace(traced, composites=traced.stock).cells()[-1] == ""


def test_a_process_that_ends_fails_its_entry_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "_measured", _ends_for_silu)
    found = list(entries.measured(["gelu", "silu", "mish"], 2, 0.1, "wall"))
    assert found == ["gelu", Failure("silu", "its process ended"), "mish"]


def _ends_for_silu(name: str, **_: object) -> str:
    if name == "silu":
        os._exit(1)
    return name


def test_the_plot_has_each_entry(tmp_path: Path) -> None:
    picture = tmp_path / "a.svg"
    plot([row("gelu", 1.0), row("silu", 1.2), row("adamw", 1.1, "update")], picture)
    root = ElementTree.parse(picture).getroot()
    assert root.tag.endswith("svg")
    comments = picture.read_text()
    assert all(name in comments for name in ("gelu", "silu", "adamw", "forward + backward"))


@pytest.mark.exhaustive
def test_measures_and_goes_on_with_an_earlier_run(tmp_path: Path) -> None:
    results, page, picture = (tmp_path / name for name in ("rows.jsonl", "page.md", "plot.svg"))

    def measured(names: str) -> str:
        done = run(
            *(sys.executable, "-m", "benchmarks.entries", "--names", names, "--repeats", "2"),
            *("--budget", "0.1", "--results", str(results)),
            *("--markdown", str(page), "--plot", str(picture)),
            cwd=REPOSITORY,
            XLA_COMPOSITE_OP="all",  # the other side is stock nevertheless
            COLUMNS="200",
        )
        assert done.code == 0, done.stderr
        return done.stdout

    assert "forward + backward" in measured("glu")
    first = results.read_text()
    assert [json.loads(line)["mode"] for line in first.splitlines()] == [
        *("forward", "forward + backward", "gradient"),
    ]
    assert "update" in measured("glu,sgd")
    assert results.read_text().startswith(first)
    assert [json.loads(line)["entry"] for line in results.read_text().splitlines()][3:] == ["sgd"]
    assert "| sgd | 41 tensors | update |" in page.read_text()
    assert picture.exists()


@pytest.mark.exhaustive
def test_an_unknown_entry_is_named() -> None:
    command = (sys.executable, "-m", "benchmarks.entries", "--names", "gelo")
    process = run(*command, cwd=REPOSITORY)
    assert process.code == 1
    assert "there is no case 'gelo' (there are gelu, silu," in process.stderr
