"""The matrix of consumers: its cells, its reasons and its page."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from benchmarks import records
from benchmarks.consumer_models import MODELS as BUILT
from benchmarks.consumer_programs import Kind as ExportedKind
from benchmarks.consumer_runs import largest_error
from benchmarks.consumers import (
    MODELS,
    TOLERANCE,
    Cell,
    Key,
    Kind,
    markdown,
    reason_of,
    run_cells,
)


def test_the_names_are_those_of_the_models() -> None:
    assert tuple(BUILT) == MODELS
    assert Kind == ExportedKind


def test_errors_are_relative_to_the_largest_value_of_each_output() -> None:
    wanted = {"a": np.array([100.0, 1.0]), "b": np.array([0.0])}
    assert largest_error({"a": np.array([100.0, 2.0])}, wanted) == pytest.approx(1 / 100.1)
    assert largest_error({"b": np.array([0.01])}, wanted) == pytest.approx(0.1)
    assert math.isnan(largest_error({"a": np.array([np.nan, 1.0])}, wanted))
    with pytest.raises(ValueError, match="a has shape"):
        largest_error({"a": np.zeros(3)}, wanted)


def test_what_is_right() -> None:
    assert Cell("gnn", "step", "jax", error=TOLERANCE).right
    assert not Cell("gnn", "step", "jax", error=2 * TOLERANCE).right
    assert not Cell("gnn", "step", "jax", error=math.nan).right
    assert not Cell("gnn", "step", "jax", reason="refused").right


def test_a_reason_names_the_operation() -> None:
    messages = "x\nerror: failed to legalize operation 'stablehlo.scatter' that was\nlast line"
    assert reason_of(messages, 1) == "failed to legalize operation 'stablehlo.scatter'"
    assert reason_of("", -6) == "ended by signal 6"
    assert reason_of("a\nlast line\n", 1) == "last line"


def test_the_page_has_each_model_and_each_reason_once() -> None:
    reason = "failed to legalize operation 'stablehlo.scatter'"
    page = markdown(
        [
            Cell("gnn", "step", "jax", error=2e-7),
            Cell("swin", "step", "jax", error=0.25),
            Cell("gnn", "step", "litert", reason=reason),
            Cell("gru", "step", "litert", reason=reason),
        ]
    )
    assert all(page.count(f"\n| {name} | ") == 3 for name in MODELS)
    assert page.count(reason) == 1
    assert "| gnn | 2e-07 | not run | [note 1](#notes) |" in page
    assert "| swin | **2e-01** | not run | not run |" in page
    assert "**1 of 2** | **0 of 0** | **0 of 2** |" in page
    assert str(Path.cwd()) not in page


def test_cells_run_in_processes_of_their_own(tmp_path: Path) -> None:
    keys: list[Key] = [("gnn", "gradients", "jax"), ("gnn", "gradients", "litert")]
    found = list(run_cells(keys, tmp_path, 300))
    assert all(cell.right for cell in found), found
    assert [(cell.model, cell.kind, cell.consumer) for cell in found] == keys
    records.append(tmp_path / "cells", found)
    assert [Cell(**record) for record in records.read(tmp_path / "cells")] == found


def test_an_export_that_takes_too_long_says_so(tmp_path: Path) -> None:
    (cell,) = run_cells([("gnn", "step", "jax")], tmp_path, 0.1)
    assert cell.reason == "the export: longer than 0 s"


@pytest.mark.exhaustive
def test_iree_runs_a_training_step(tmp_path: Path) -> None:
    (cell,) = run_cells([("lora_int8", "step", "iree")], tmp_path, 300)
    assert cell.right, cell
