"""The matrix of consumers: its cells, its reasons and its page."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from benchmarks import records
from benchmarks.consumer_models import MODELS
from benchmarks.consumers import Cell, in_a_process, largest_error, markdown, reason_of


def test_there_are_twenty_models() -> None:
    assert len(MODELS) == 20


def test_errors_are_relative_to_the_largest_value_of_each_output() -> None:
    wanted = {"a": np.array([100.0, 1.0]), "b": np.array([0.0])}
    assert largest_error({"a": np.array([100.0, 2.0])}, wanted) == pytest.approx(1 / 100.1)
    assert largest_error({"b": np.array([0.01])}, wanted) == pytest.approx(0.1)
    assert math.isnan(largest_error({"a": np.array([np.nan, 1.0])}, wanted))
    with pytest.raises(ValueError, match="a has shape"):
        largest_error({"a": np.zeros(3)}, wanted)


def test_a_value_that_is_not_a_number_is_not_right() -> None:
    assert not Cell("gnn", "step", "jax", error=math.nan).right
    assert not Cell("gnn", "step", "jax", reason="refused").right
    assert Cell("gnn", "step", "jax", error=1e-7).right


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
            Cell("gnn", "step", "litert", reason=reason),
            Cell("gru", "step", "litert", reason=reason),
        ]
    )
    assert all(f"\n| {name} | " in page for name in MODELS)
    assert page.count(reason) == 1
    assert "2e-07" in page
    assert "not run" in page


def test_a_cell_runs_in_a_process_of_its_own(tmp_path: Path) -> None:
    cell = in_a_process("gnn", "step", "jax", 120)
    assert cell.right, cell
    records.append(tmp_path / "cells", [cell])
    assert [Cell(**found) for found in records.read(tmp_path / "cells")] == [cell]


def test_a_cell_that_takes_too_long_says_so() -> None:
    assert in_a_process("gnn", "step", "jax", 0.1).reason.startswith("longer than")


@pytest.mark.exhaustive
def test_iree_runs_a_training_step() -> None:
    cell = in_a_process("lora_int8", "step", "iree", 120)
    assert cell.right, cell
