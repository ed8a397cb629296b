"""Exported models for the matrix of consumers, in folders: StableHLO, inputs, PyTorch's results.

| file | content |
|---|---|
| `program.mlir` | StableHLO text, for no target |
| `inputs.npz` | the inputs of `@main`, by position |
| `outputs.npz` | what PyTorch computes on the CPU for each output of `@main`, by position |
| `names.json` | the names of the outputs |
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch

import composites
from benchmarks.consumer_models import MODELS, prediction
from benchmarks.consumers import Kind
from benchmarks.training_models import Step

STATE = {"step": 10.0, "exp_avg": 0.1, "exp_avg_sq": 0.3}
"""The optimizer's state, some steps on: Adam's first steps move by the sign of a gradient."""


def export(name: str, kind: Kind, folder: Path) -> None:
    """Export a model of `MODELS` and compute the same with PyTorch."""
    torch.manual_seed(0)
    model = MODELS[name]()
    module, inputs = prediction(model) if kind == "inference" else (Step(model), dict(model.batch))
    optimizer = partial(torch.optim.AdamW, lr=1e-3) if kind == "step" else None
    program = composites.export(module, (), inputs, train=kind != "inference", optimizer=optimizer)
    state = {
        value.name: torch.full(value.sizes, STATE[value.name.rpartition(".")[2]])
        for value in program.inputs
        if value.name.startswith("state:")
    }
    named = {**program.module_weights(module), **state}
    named |= {f"kwarg:{key}": value for key, value in inputs.items()}
    # Copies: batch norm writes to its buffers, which numpy would see.
    values = [named[value.name].detach().numpy().copy() for value in program.inputs]
    expected = _computed(module, inputs, kind, optimizer, state)
    names = [value.name for value in program.outputs]
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "inputs.npz", *values)
    np.savez(folder / "outputs.npz", *(expected[name] for name in names))
    (folder / "names.json").write_text(json.dumps(names), encoding="utf-8")
    (folder / "program.mlir").write_text(program.mlir, encoding="utf-8")  # last: it is whole


def _computed(
    module: Any,
    inputs: Mapping[str, Any],
    kind: Kind,
    optimizer: Callable[..., Any] | None,
    state: Mapping[str, Any],
) -> dict[str, np.ndarray]:
    """The results of PyTorch on the CPU, by the names of the program's outputs."""
    module = copy.deepcopy(module)
    result = module(**inputs)
    outputs = {"out:0": result}
    parameters = dict(module.named_parameters())
    if kind != "inference":
        result.backward()
        outputs = {"loss": result}
        outputs |= {f"grad:{name}": p.grad for name, p in parameters.items() if p.grad is not None}
    if optimizer is not None:
        stepper = optimizer(parameters.values())
        for name, tensor in state.items():
            owner, _, key = name.removeprefix("state:").rpartition(".")
            stepper.state[parameters[owner]][key] = tensor.clone()
        stepper.step()
        outputs |= {f"param:{name}": parameter for name, parameter in parameters.items()}
        outputs |= {
            f"state:{name}.{key}": tensor
            for name, parameter in parameters.items()
            for key, tensor in stepper.state[parameter].items()
        }
    outputs |= {f"buffer:{name}": buffer for name, buffer in module.named_buffers()}
    return {name: value.detach().numpy() for name, value in outputs.items()}
