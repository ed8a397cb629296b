"""Equal computations in a decomposition become one.

Each reduction, sort or scatter of a decomposition has a separate computation, and most of these
computations add two numbers or return the larger number.
"""

from collections.abc import Hashable, Sequence
from typing import Any

from lowering.emission import hlo_proto

_CALLERS = frozenset({"reduce", "reduce-window", "scatter", "select-and-scatter", "sort"})


def share_equal(computations: Sequence[Any]) -> None:
    """Make reductions, sorts and scatters refer to the first of several equal computations, in
    place. The other equal computations stay in the module, without a caller.

    Args:
        computations: all computations (protobuf) of a module, see `compact`.
    """
    by_id = {computation.id: computation for computation in computations}
    first: dict[Hashable, int] = {}
    shared: dict[int, int] = {}
    for computation in computations:
        for instruction in computation.instructions:
            if instruction.opcode in _CALLERS:
                called = instruction.called_computation_ids
                for number in called:
                    if number not in shared:
                        shared[number] = first.setdefault(_key(by_id[number]), number)
                called[:] = [shared[number] for number in called]


def _key(computation: Any) -> Hashable:
    """A key of a computation that equal computations have in common."""
    positions = {item.id: position for position, item in enumerate(computation.instructions)}
    items = []
    for item in computation.instructions:
        bare = hlo_proto.Instruction()
        bare.CopyFrom(item)
        bare.ClearField("id")
        for ids in (bare.operand_ids, bare.control_predecessor_ids):
            ids[:] = [positions[number] for number in ids]
        items.append(bare.SerializeToString(deterministic=True))
    return positions[computation.root_id], tuple(items)
