"""Running an exported program on a consumer of StableHLO, on the CPU. Needs no torch."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np

from lowering.stablehlo import Module, run, run_passes, target_passes
from lowering.stablehlo.diagnosis.devices import by_iree, by_litert, without_unknown

Consumer = Literal["jax", "iree", "litert"]
TARGET: Mapping[Consumer, str] = {"jax": "xla", "iree": "iree", "litert": "litert"}
FLOOR = 0.1
"""A number added to the largest value of an output, for outputs that are noise around zero."""


def measure_error(folder: Path, consumer: Consumer) -> float:
    """The largest error of a consumer's outputs, for a folder that `consumer_programs` wrote."""
    module = Module.read(folder / "program.mlir")
    module = run_passes(module, target_passes(TARGET[consumer]))
    names = json.loads((folder / "names.json").read_text(encoding="utf-8"))
    results = CONSUMERS[consumer](module, arrays(folder / "inputs.npz"))
    actual = dict(zip(names, map(np.asarray, results), strict=True))
    expected = dict(zip(names, arrays(folder / "outputs.npz"), strict=True))
    return largest_error(actual, expected)


def arrays(file: Path) -> list[np.ndarray]:
    """The arrays of an npz file, by position."""
    with np.load(file) as held:
        return [held[f"arr_{number}"] for number in range(len(held.files))]


def largest_error(actual: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> float:
    """The largest of all outputs; NaN if any value is not a number."""
    errors = [0.0]
    for name, value in actual.items():
        if name.endswith("running_var"):
            continue
        reference = np.asarray(expected[name], np.float64)
        if value.shape != reference.shape:
            raise ValueError(f"{name} has shape {list(value.shape)}, not {list(reference.shape)}")
        if reference.size:
            difference = np.abs(np.asarray(value, np.float64) - reference)
            errors.append(float(difference.max() / (FLOOR + np.abs(reference).max())))
    return float(np.max(errors))


CONSUMERS: Mapping[Consumer, Callable[[Module, Sequence[np.ndarray]], Sequence[Any]]] = {
    "jax": lambda module, values: run(module, *values),
    "iree": lambda module, values: by_iree(module)(*values),
    "litert": lambda module, values: by_litert(without_unknown(module))(*values),
}
