"""XlaBuilder's requirements for a module that is inserted into a graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lowering.emission import hlo_proto


def insertable(module: Any) -> bytes:
    """Serialize a whole module (protobuf, changed in place) in the form that XlaBuilder
    requires."""
    entry = hlo_proto.entry_of(module)
    renumber(module.computations, first=1)
    for computation in module.computations:
        compact(computation)
    module.id = module.entry_computation_id = entry.id
    module.name = module.entry_computation_name = entry.name
    written: bytes = module.SerializeToString(deterministic=True)
    return written


def renumber(computations: Iterable[Any], first: int) -> int:
    """Give every computation and instruction a unique id, and return the next free id.

    XlaBuilder remaps both in one table (torch_xla 2.9). If an id is used twice, a later step fails
    with "not found in builder".
    """
    computations = list(computations)
    next_id = first
    computation_ids: dict[int, int] = {}
    for computation in computations:
        computation_ids[computation.id] = next_id
        next_id += 1
    for computation in computations:
        instruction_ids: dict[int, int] = {}
        for instruction in computation.instructions:
            instruction_ids[instruction.id] = next_id
            next_id += 1
        for instruction in computation.instructions:
            instruction.id = instruction_ids[instruction.id]
            _replace(instruction.operand_ids, instruction_ids)
            _replace(instruction.control_predecessor_ids, instruction_ids)
            _replace(instruction.called_computation_ids, computation_ids)
        computation.id = computation_ids[computation.id]
        computation.root_id = instruction_ids[computation.root_id]
    return next_id


def _replace(ids: Any, new_ids: Mapping[int, int]) -> None:
    ids[:] = [new_ids[old] for old in ids]


def compact(computation: Any) -> None:
    """Shorten names and remove source information.

    XlaBuilder makes names unique by replacing a numeric suffix, and aborts the process if there is
    none. The rest of a name does not appear in StableHLO.
    """
    for instruction in computation.instructions:
        instruction.name = f"{instruction.opcode[:1]}.1"
        instruction.ClearField("metadata")
    shape = computation.program_shape
    shape.parameter_names[:] = [""] * len(shape.parameters)
    computation.name = f"{hlo_proto.stem(computation.name)}.1"
