"""shrink: the computations of a module simplified, and equal ones merged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lowering.emission import hlo_proto
from lowering.hlo.simplify import RecordedBody


def shrink(computations: Sequence[Any]) -> dict[int, RecordedBody]:
    """The simplified bodies of computations by id. The computations' messages are changed in place.

    A graph holds a copy of a decomposition for each call. Copies are merged if the calls
    have the same name, version and attributes. A merged copy keeps the id of the first.

    Args:
        computations: HLO computations (protobuf), callees before their callers.
    """
    callers = {c.id: [i for i in c.instructions if i.called_computation_ids] for c in computations}
    composites = _composite_attributes(callers)
    bodies: dict[int, RecordedBody] = {}
    first: dict[Any, RecordedBody] = {}
    for computation in computations:
        for instruction in callers[computation.id]:
            called = instruction.called_computation_ids
            called[:] = [bodies[i].computation_id for i in called]
        body = RecordedBody.of(computation, bodies)
        key = (
            hlo_proto.stem(computation.name),
            composites.get(computation.id),
            body.root,
            tuple(body.serialized),
            tuple(map(tuple, body.operands)),
        )
        bodies[computation.id] = first.setdefault(key, body)
    return bodies


def reachable(entry: RecordedBody, bodies: Mapping[int, RecordedBody]) -> list[RecordedBody]:
    """A body and all bodies that it calls, in the order of the computations."""
    reached = {entry.computation_id}
    pending = [entry]
    while pending:
        for instruction in pending.pop().instructions:
            for called in instruction.called_computation_ids:
                if called not in reached:
                    reached.add(called)
                    pending.append(bodies[called])
    return [body for i, body in bodies.items() if i in reached]


def replace_computations(
    module: Any, computations: Sequence[Any], bodies: Sequence[RecordedBody]
) -> None:
    """Replace the computations of the module by these bodies. The messages are changed in place."""
    heads = {computation.id: computation for computation in computations}
    next_id = 1 + max(heads)  # no id of a computation is that of an instruction
    module.ClearField("computations")
    for body in bodies:
        head = heads[body.computation_id]
        head.root_id = next_id + body.root
        for place, instruction in enumerate(body.instructions):
            instruction.id = next_id + place
            instruction.name = f"i{instruction.id}"
            instruction.operand_ids.extend([next_id + operand for operand in body.operands[place]])
        head.ClearField("instructions")
        head.instructions.extend(body.instructions)
        module.computations.append(head)
        next_id += len(body.instructions)


def _composite_attributes(callers: Mapping[int, list[Any]]) -> dict[int, bytes]:
    """For each computation that a composite calls: the composite's frontend attributes."""
    return {
        called: instruction.frontend_attributes.SerializeToString(deterministic=True)
        for instructions in callers.values()
        for instruction in instructions
        if instruction.is_composite
        for called in instruction.called_computation_ids
    }
