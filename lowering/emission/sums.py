"""Sums over the same dimensions become one sum, which needs one collective.

    a = f32[64] reduce(x: f32[8,16,64]), b = f32[64] reduce(y: f32[8,16,64]),  dimensions={0,1}
        =>  both = f32[2,64] reduce(concatenate(x, y): f32[2,8,16,64]), dimensions={1,2}

A partitioner adds up the devices' partial sums, once for each sum over a divided dimension.
The gradients of a norm's weight and bias are such sums. Computations with products stay as they
are: the products decide there which dimensions are divided, and attention with a divided sequence
would gather more. Sums over all dimensions stay too. A loss and the sum of its weights are such
sums. The stock lowering has as many of them, and joining them would make XLA:CPU (torch_xla 2.9)
write both operands to memory: two tensors of the logits' size, which double the memory of the loss.
"""

from collections.abc import Iterable, Mapping
from graphlib import TopologicalSorter
from typing import Any

from lowering.emission import hlo_proto


def merge_sums(body: Any, computations: Mapping[int, Any]) -> None:
    """Rewrite, in place, sums of a computation (protobuf) over some dimensions that have operands
    of one shape, the same dimensions and the same start, and of which none depends on another.
    Where the operand is the same too, it is summed once.

    Args:
        body: the computation.
        computations: the computations that `body` may call, by id.
    """
    if any(item.opcode == "dot" for item in body.instructions):
        return
    by_id = {item.id: item for item in body.instructions}
    groups = list(_groups(body, by_id, computations))
    if not groups:
        return
    free = 1 + max(by_id)
    for group in groups:
        free = _merge(group, by_id, free)
    body.ClearField("instructions")
    reads = {n: (*item.operand_ids, *item.control_predecessor_ids) for n, item in by_id.items()}
    body.instructions.extend(by_id[number] for number in TopologicalSorter(reads).static_order())


def _groups(
    body: Any, by_id: Mapping[int, Any], computations: Mapping[int, Any]
) -> Iterable[list[Any]]:
    """Groups of sums that can become one sum. Merging a group makes no cycle with another group,
    because no instruction between the sums of a group depends on one of them."""
    below = _dependencies(body)
    taken: set[int] = set()
    sums = [item for item in body.instructions if _is_sum(item, by_id, computations)]
    for position, first in enumerate(sums):
        if first.id in taken:
            continue
        group = [first]
        for item in sums[position + 1 :]:
            alike = item.id not in taken and _alike(first, item, by_id)
            if alike and not any(member.id in below[item.id] for member in group):
                group.append(item)
        if len(group) > 1:
            taken |= {item.id for item in group}
            yield group
            # Instructions that follow one member follow all of them now.
            whole = set().union(*(below[item.id] for item in group), (item.id for item in group))
            for dependencies in below.values():
                if any(item.id in dependencies for item in group):
                    dependencies |= whole


def _dependencies(body: Any) -> dict[int, set[int]]:
    """Ids of the instructions that each instruction depends on, by the id of the latter."""
    below: dict[int, set[int]] = {}
    for item in body.instructions:
        direct = [*item.operand_ids, *item.control_predecessor_ids]
        below[item.id] = set(direct).union(*(below[number] for number in direct))
    return below


def _is_sum(item: Any, by_id: Mapping[int, Any], computations: Mapping[int, Any]) -> bool:
    if item.opcode != "reduce" or len(item.operand_ids) != 2:
        return False
    if not (item.dimensions and item.shape.dimensions):
        return False
    operand = by_id[item.operand_ids[0]].shape
    called = computations[item.called_computation_ids[0]].instructions
    return (
        not any(operand.is_dynamic_dimension)
        and hlo_proto.ELEMENT_TYPE_NAMES[operand.element_type] in ("f32", "f64")
        and sorted(step.opcode for step in called) == ["add", "parameter", "parameter"]
    )


def _alike(left: Any, right: Any, by_id: Mapping[int, Any]) -> bool:
    """Return whether two sums have operands of one shape, equal dimensions, and equal starts."""
    first, second = (by_id[item.operand_ids[0]].shape for item in (left, right))
    start, other_start = (by_id[item.operand_ids[1]] for item in (left, right))
    return (
        first.element_type == second.element_type
        and list(first.dimensions) == list(second.dimensions)
        and list(left.dimensions) == list(right.dimensions)
        and start.opcode == other_start.opcode == "constant"
        and start.literal == other_start.literal
    )


def _merge(group: list[Any], by_id: dict[int, Any], free: int) -> int:
    """Replace several sums by one. Return the next free id."""
    first = group[0]
    operand = by_id[first.operand_ids[0]].shape
    name = hlo_proto.ELEMENT_TYPE_NAMES[operand.element_type]

    def new(opcode: str, operands: list[int], sizes: list[int], **fields: Any) -> Any:
        nonlocal free
        shape = hlo_proto.array_shape(name, sizes)
        made = hlo_proto.Instruction(
            opcode=opcode, id=free, operand_ids=operands, shape=shape, **fields
        )
        by_id[free] = made
        free += 1
        return made

    full, results = list(operand.dimensions), list(first.shape.dimensions)
    summed = list(dict.fromkeys(item.operand_ids[0] for item in group))
    if len(summed) == 1:  # a sum that is computed several times
        for item in group[1:]:
            by_id[item.id] = hlo_proto.Instruction(
                opcode="reshape", id=item.id, operand_ids=[first.id], shape=item.shape
            )
        return free
    layers = [new("reshape", [number], [1, *full]).id for number in summed]
    joined = new("concatenate", layers, [len(summed), *full], dimensions=[0])
    total = new(
        "reduce",
        [joined.id, first.operand_ids[1]],
        [len(summed), *results],
        dimensions=[dimension + 1 for dimension in first.dimensions],
        called_computation_ids=first.called_computation_ids,
    )
    for item in group:
        number = summed.index(item.operand_ids[0])
        bounds = [(number, number + 1), *((0, size) for size in results)]
        parts = [hlo_proto.SliceDimensions(start=a, limit=b, stride=1) for a, b in bounds]
        part = new("slice", [total.id], [1, *results], slice_dimensions=parts)
        by_id[item.id] = hlo_proto.Instruction(
            opcode="reshape", id=item.id, operand_ids=[part.id], shape=item.shape
        )
    return free
