"""Graphs of live programs as folders, which the command line and consumers read as exports."""

import itertools
import os
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from composites.errors import CompositesError
from lowering.export.manifest import Value
from lowering.export.program import Program
from lowering.frontends.protocols import LoweredGraph
from lowering.stablehlo import rename_decompositions, rename_module, run_passes


def save_graph(
    lowered: LoweredGraph,
    operands: Sequence[str],
    results: Sequence[int],
    kind: str,
    folder: str | os.PathLike[str],
) -> Path:
    """Write a graph as a `Program`, before kernels replace composites. The dimensions of its
    tensors are in the order that they have in memory.

    Args:
        operands: the names of the graph's inputs, by operand.
        results: the positions of the computed results among those of the graph.
        kind: `forward`, `backward` or `inference`, a part of the folder's name.
        folder: the parent of a folder for each graph: `000_forward`, `001_backward`, and so on.

    Raises:
        CompositesError: the folder cannot be made.
        ProgramError: the program cannot be written.
    """
    inputs = tuple(
        Value.from_type("rng_seed" if p.operand is None else f"arg:{operands[p.operand]}", p.type)
        for p in lowered.parameters
    )
    outputs = tuple(
        Value.from_type(f"out:{position}", type_)
        for position, type_ in zip(results, lowered.results, strict=True)
    )
    renamed = partial(rename_module, name=kind)
    module = run_passes(lowered.module, [rename_decompositions, renamed], verify=False)
    written = _new_folder(Path(folder), kind)
    Program(module, inputs, outputs).save(written)
    return written


def _new_folder(parent: Path, kind: str) -> Path:
    """Make a new folder for a graph. Several threads and processes may write to one parent."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        named = (re.match(r"(\d+)_", path.name) for path in parent.iterdir())
        first = max((int(match[1]) + 1 for match in named if match), default=0)
        for number in itertools.count(first):
            folder = parent / f"{number:03}_{kind}"
            try:
                folder.mkdir()
            except FileExistsError:
                continue
            return folder
    except OSError as error:
        raise CompositesError(f"save: {parent} cannot hold graphs: {error}") from error
    raise AssertionError
