"""Inputs to run a saved program with: the caller's arrays, saved arrays, and made arrays."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from composites.errors import ProgramError, did_you_mean
from lowering.export import manifest
from lowering.export.arrays import kept_arrays
from lowering.export.checkpoint import read_tensors
from lowering.export.program import Program
from lowering.export.state import is_state, small_values
from lowering.stablehlo.comparison.inputs import typical_inputs


def example_inputs(program: Program, folder: Path, arrays: Mapping[str, Any]) -> list[Any]:
    """An array for each input of a program. `arrays`, by names of inputs, override the others.

    Weights come from the folder, if it has weights, and are otherwise small random numbers. State
    of an optimizer is zero. The batch is random; integers that are used as indices are in range.

    Raises:
        ProgramError: the program has no input of a name in `arrays`.
        RunError: sizes of the program vary.
    """
    names = [value.name for value in program.inputs]
    for name in arrays:
        if name not in names:
            raise ProgramError(
                f"there is no input {name!r}{did_you_mean(name, names)}; give all {len(names)}"
                " inputs in order, or some of them by their names"
            )
    values = dict(zip(names, typical_inputs(program.module), strict=True))
    values |= small_values(filter(is_state, program.inputs))
    values |= kept_arrays(program.inputs)
    if (folder / manifest.WEIGHTS).is_file():
        values |= read_tensors(folder / manifest.WEIGHTS)[0]
    values |= arrays
    return [values[name] for name in names]
