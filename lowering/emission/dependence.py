"""The operands that the results of a decomposition depend on."""

from collections.abc import Mapping, Sequence
from typing import Any

from lowering.emission import hlo_proto
from lowering.emission.linking import is_reference


def parameters_read(module: bytes, referred: Mapping[str, bytes]) -> frozenset[int]:
    """The numbers of the parameters on whose values a result of a serialized module depends.

    A graph of torch_xla also has parameters that only unused results need, and composites inside it
    take operands that they do not read; the moving averages of a batch norm are examples of both.

    Args:
        referred: the modules that the graph may refer to, by name.
    """
    graph = hlo_proto.Module.FromString(module)
    by_id = {computation.id: computation for computation in graph.computations}
    return _read(hlo_proto.entry_computation(graph), by_id, referred)


def _read(
    computation: Any, by_id: Mapping[int, Any], referred: Mapping[str, bytes]
) -> frozenset[int]:
    instructions = {instruction.id: instruction for instruction in computation.instructions}
    seen: set[int] = set()
    pending = [computation.root_id]
    while pending:
        number = pending.pop()
        if number not in seen:
            seen.add(number)
            pending += _dependencies(instructions[number], by_id, referred)
    return frozenset(
        instruction.parameter_number
        for instruction in computation.instructions
        if instruction.opcode == "parameter" and instruction.id in seen
    )


def _dependencies(
    instruction: Any, by_id: Mapping[int, Any], referred: Mapping[str, bytes]
) -> Sequence[int]:
    """The operands whose values an instruction reads."""
    operands: Sequence[int] = instruction.operand_ids
    if is_reference(instruction):
        read = parameters_read(referred[instruction.custom_call_target], referred)
    elif instruction.opcode == "call":
        read = _read(by_id[instruction.called_computation_ids[0]], by_id, referred)
    else:
        return operands
    return [operands[number] for number in sorted(read)]
