"""IREE compiles and runs exported programs as they are, training steps too."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from composites_testing.example_models import (
    OPTIMIZERS,
    Example,
    compare,
    export_example,
    load_example,
)
from composites_testing.stablehlo_commands import invoke

from composites import Program
from lowering.stablehlo import Module
from lowering.stablehlo.diagnosis.devices import by_iree

ADAMW = partial(torch.optim.AdamW, lr=1e-2, weight_decay=0.1)


def run(program: Program, file: Path, model: Example) -> Mapping[str, Any]:
    results = by_iree(Module.read(file))(*model.values(program).values())
    return dict(zip((value.name for value in program.outputs), results, strict=True))


def test_inference_compiles_runs_and_agrees(tmp_path: Path) -> None:
    model, program = load_example("conv_net"), export_example("conv_net", "inference")
    program.save(tmp_path)
    compare(run(program, tmp_path / "program.mlir", model), model.outputs())


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=getattr(pytest.mark, mark))
        for name in OPTIMIZERS
        for mark in ["process" if name == "conv_net" else "exhaustive"]
    ],
)
def test_a_step_with_its_optimizer_compiles_runs_and_agrees(name: str, tmp_path: Path) -> None:
    """A step compiles as text, and as the artifact for an older StableHLO."""
    model = replace(load_example(name), optimizer=ADAMW)
    program = model.export(optimizer=ADAMW, target="portable")
    assert program.composites["ptxla.adamw"] >= 8
    program.save(tmp_path, portable="1.9.0")
    values = model.values(program)
    state = {name: value for name, value in values.items() if name.startswith("state:")}
    expected = model.step(state)
    compare(program.run(values), expected)
    for file in ("program.mlir", "program.mlirbc"):
        compare(run(program, tmp_path / file, model), expected)


@pytest.mark.process
def test_a_training_step_is_diagnosed_from_its_folder(tmp_path: Path) -> None:
    """The diagnosis reads the weights and takes inputs by name."""
    model, program = load_example("conv_net"), export_example("conv_net", "gradients")
    program.save(tmp_path, weights=program.module_weights(model.module))
    for name, message in (("arg:0", ""), ("arg:7", "error: there is no input 'arg:7'")):
        batch: Any = {name: model.values(program)["arg:0"]}
        np.savez(inputs := tmp_path.with_suffix(".npz"), **batch)
        code, out, err = invoke("diagnose", tmp_path, "--backend", "iree", "--inputs", inputs)
        assert (code, err.startswith(message)) == (int(bool(message)), True)
        assert ("ptxla.cross_entropy_loss_backward" in out) == (not message)
