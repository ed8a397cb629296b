"""The instructions, parameters and computations on which the results of a computation depend."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from lowering.emission import hlo_proto


def parameters_read(module: bytes) -> frozenset[int]:
    """The numbers of the parameters on whose values a result of a serialized module depends.

    A graph of torch_xla also has parameters that only unused results need, and composites inside it
    take operands that they do not read; the moving averages of a batch norm are examples of both.
    """
    graph = hlo_proto.Module.FromString(module)
    by_id = {computation.id: computation for computation in graph.computations}
    return _read(hlo_proto.entry_computation(graph), by_id)


def _read(computation: Any, by_id: Mapping[int, Any]) -> frozenset[int]:
    instructions = {instruction.id: instruction for instruction in computation.instructions}

    def operands_read(number: int) -> Iterable[int]:
        operands: Iterable[int] = instructions[number].operand_ids
        if instructions[number].opcode != "call":
            return operands
        read = _read(by_id[instructions[number].called_computation_ids[0]], by_id)
        return [operand for position, operand in enumerate(operands) if position in read]

    seen = _reached([computation.root_id], operands_read)
    return frozenset(
        instruction.parameter_number
        for instruction in computation.instructions
        if instruction.opcode == "parameter" and instruction.id in seen
    )


def drop_dead(
    computation: Any, stays: Callable[[str], bool] = lambda opcode: opcode == "parameter"
) -> None:
    """Remove, in place, the instructions of a computation (protobuf) that the root does not reach.

    Args:
        stays: return True if instructions of an opcode, such as a parameter, stay with their
            operands.
    """
    by_id = {instruction.id: instruction for instruction in computation.instructions}
    live = _reached(
        [computation.root_id, *(number for number, item in by_id.items() if stays(item.opcode))],
        lambda number: (*by_id[number].operand_ids, *by_id[number].control_predecessor_ids),
    )
    kept = [instruction for instruction in computation.instructions if instruction.id in live]
    computation.ClearField("instructions")
    computation.instructions.extend(kept)


def reachable(entry_id: int, by_id: Mapping[int, Any]) -> set[int]:
    """Ids of a computation and of all its direct and indirect callees."""
    return _reached(
        [entry_id],
        lambda number: (
            callee for item in by_id[number].instructions for callee in item.called_computation_ids
        ),
    )


def _reached(starts: Iterable[int], following: Callable[[int], Iterable[int]]) -> set[int]:
    """Numbers, and all numbers that follow them directly or indirectly."""
    seen: set[int] = set()
    pending = list(starts)
    while pending:
        number = pending.pop()
        if number not in seen:
            seen.add(number)
            pending.extend(following(number))
    return seen
