"""shrink: write once the instructions that a recorded graph repeats for every call.

Of the 15,000 instructions that torch_xla records for a training step of a 12-layer GPT-2, more
than half are constants, broadcasts of constants, multiplications by one, reshapes of reshapes, and
copies of decompositions. Each later step (conversion to StableHLO, the passes, printing) takes time
for each instruction.

torch_xla's own converter makes these simplifications, and a few more, after the conversion. They
keep every bit of the results, with one exception: `x + 0.0` becomes `x`, so a negative zero stays
negative.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from lowering.emission import hlo_proto
from lowering.emission.dependence import drop_dead, reachable
from lowering.emission.simplify import PURE, RULES, ComputationBody, Rule


def shrink(computations: Sequence[Any], entry: Any) -> list[Any]:
    """Simplify the computations of a module in place, and merge equal computations. Return the
    computations that the entry computation needs.

    A graph holds a copy of a decomposition for each call. Copies are merged if the calls
    have the same name, version and attributes.

    Args:
        computations: HLO computations (protobuf), callees before their callers.
    """
    composites = _composite_attributes(computations)
    by_id: dict[int, Any] = {}
    first: dict[Any, int] = {}
    merged: dict[int, int] = {}
    for computation in computations:
        for instruction in computation.instructions:
            called = instruction.called_computation_ids
            if called:
                called[:] = [merged[number] for number in called]
        _RecordedBody().rewrite(computation, by_id)
        drop_dead(computation, lambda opcode: opcode not in PURE)
        by_id[computation.id] = computation
        key = (composites.get(computation.id), _content(computation))
        merged[computation.id] = first.setdefault(key, computation.id)
    reached = reachable(entry.id, by_id)
    return [computation for computation in computations if computation.id in reached]


class _RecordedBody(ComputationBody):
    """The instructions of one computation of a recorded graph."""

    shared = PURE

    def rule(self, instruction: Any, opcode: str) -> Rule | None:
        return _RULES.get(opcode)


def _add(body: ComputationBody, instruction: Any, operands: list[int]) -> int | None:
    return body.unless_neutral(0, instruction, operands)


_RULES: Mapping[str, Rule] = {**RULES, "add": _add}


def _content(computation: Any) -> tuple[str, bytes]:
    """The name and instructions of a simplified computation, to compare it with others."""
    bare = hlo_proto.Computation(instructions=computation.instructions, root_id=computation.root_id)
    return hlo_proto.stem(computation.name), bare.SerializeToString(deterministic=True)


def _composite_attributes(computations: Sequence[Any]) -> dict[int, bytes]:
    """For each computation that a composite calls: the composite's frontend attributes."""
    return {
        called: instruction.frontend_attributes.SerializeToString(deterministic=True)
        for computation in computations
        for instruction in computation.instructions
        if instruction.is_composite
        for called in instruction.called_computation_ids
    }
