"""IREE compiles and runs exported programs as they are, training steps too."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from composites_testing.on_iree import run_on_iree


@pytest.mark.parametrize("train", [False, True], ids=["inference", "training step"])
def test_the_saved_text_compiles_runs_and_agrees(
    train: bool, model_name: str, subject: Any, tmp_path: Path
) -> None:
    step = subject(model_name, train=train, portable=True)
    step.program.save(tmp_path)
    step.check(run_on_iree(tmp_path / "program.mlir", step.values))


def test_a_step_with_its_optimizer_compiles_runs_and_agrees(
    model_name: str, make: Any, tmp_path: Path
) -> None:
    optimizer = partial(torch.optim.AdamW, lr=1e-2, weight_decay=0.1)
    step = make(model_name, train=True, portable=True, optimizer=optimizer)
    assert step.program.composites["ptxla.adamw"] >= 8
    step.program.save(tmp_path)
    step.check(run_on_iree(tmp_path / "program.mlir", step.values))
    values = {v.name: value for v, value in zip(step.program.inputs, step.values, strict=True)}
    step.check(step.program.run(values).values())  # the same file on XLA


def test_the_portable_artifact_compiles_runs_and_agrees(subject: Any, tmp_path: Path) -> None:
    step = subject("conv_net", train=True, portable=True)
    step.program.save(tmp_path, portable="1.9.0")
    step.check(run_on_iree(tmp_path / "program.mlirbc", step.values))
