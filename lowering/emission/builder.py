"""XlaBuilder's requirements for a module that is inserted into a graph."""

from collections.abc import Iterable, Mapping
from typing import Any

from lowering.emission import hlo_proto


def insertable(module: Any) -> bytes:
    """Serialize a whole module (protobuf, changed in place) in the form that XlaBuilder
    requires."""
    entry = hlo_proto.entry_computation(module)
    types = signature(entry)
    for computation in module.computations:
        compact(computation)
    renumber(module.computations, first=1)
    entry.program_shape.CopyFrom(types)
    module.host_program_shape.CopyFrom(types)
    module.id = module.entry_computation_id = entry.id
    module.name = module.entry_computation_name = entry.name
    written: bytes = module.SerializeToString(deterministic=True)
    return written


def signature(computation: Any) -> Any:
    """The program shape (protobuf) of a computation. XLA requires a name for each parameter."""
    types = hlo_proto.ProgramShape()
    types.CopyFrom(computation.program_shape)
    types.parameter_names[:] = [""] * len(types.parameters)
    return types


def compact(computation: Any) -> None:
    """Remove names, which `renumber` sets again, source information and the program shape.

    XlaBuilder reads the program shape of the inserted computation, and no program shape of the
    computations that it calls.
    """
    for instruction in computation.instructions:
        instruction.ClearField("name")
        instruction.ClearField("metadata")
    computation.ClearField("program_shape")


def renumber(computations: Iterable[Any], first: int) -> int:
    """Give every computation and instruction a unique id and a short name, and return the next free
    id.

    XlaBuilder remaps the ids of computations and instructions in one table (torch_xla 2.9). If an
    id is used twice, a later step fails with "not found in builder". XlaBuilder makes names unique
    by replacing a numeric suffix, and aborts the process if a name has none. The rest of a name
    does not appear in StableHLO.
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
            instruction.name = f"{instruction.opcode[:1]}.1"
            _replace(instruction.operand_ids, instruction_ids)
            _replace(instruction.control_predecessor_ids, instruction_ids)
            _replace(instruction.called_computation_ids, computation_ids)
        computation.id = computation_ids[computation.id]
        computation.root_id = instruction_ids[computation.root_id]
        computation.name = f"{hlo_proto.stem(computation.name)}.1"
    return next_id


def _replace(ids: Any, new_ids: Mapping[int, int]) -> None:
    if ids:
        ids[:] = [new_ids[old] for old in ids]
