"""Inputs to run a saved program with: given ones, those of its folder, and made ones."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from composites.errors import ProgramError, did_you_mean
from lowering.export import manifest
from lowering.export.arrays import check_type, kept_array
from lowering.export.checkpoint import read_tensors
from lowering.export.program import Program
from lowering.export.state import is_state, small_values
from lowering.stablehlo.comparison.inputs import typical_inputs


def example_inputs(program: Program, folder: Path, given: Mapping[str, Any]) -> list[Any]:
    """An array for each input of a program.

    Weights are those of the folder, if it has some, and otherwise small random numbers. State of an
    optimizer is zero. The batch is random: integers that are indices are in range.

    Args:
        program: what the folder holds.
        folder: the folder, with or without weights.
        given: arrays by the name of the input, such as `arg:0`.

    Raises:
        ProgramError: there is no input of a given name, an array is of another type, or sizes of
            the program vary.
    """
    if program.dimensions:
        sizes = ", ".join(dimension.name for dimension in program.dimensions)
        raise ProgramError(
            f"{folder} has sizes that vary ({sizes}); save it at one of them: "
            "Program.load(…).at(…).save(…)"
        )
    by_name = {value.name: value for value in program.inputs}
    for name in given:
        if name not in by_name:
            raise ProgramError(f"there is no input {name!r}{did_you_mean(name, list(by_name))}")
    made = dict(zip(by_name, typical_inputs(program.module), strict=True))
    values = made | small_values(filter(is_state, program.inputs))
    values |= {value.name: kept_array(value) for value in program.inputs if value.kept is not None}
    if (folder / manifest.WEIGHTS).is_file():
        values |= read_tensors(folder / manifest.WEIGHTS)[0]
    values |= given
    for name, value in by_name.items():
        check_type(value, values[name])
    return [values[name] for name in by_name]
