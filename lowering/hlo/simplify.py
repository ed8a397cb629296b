"""simplify: what a recorded graph repeats for every call is written once.

Of the 15,000 instructions that torch_xla records for a training step of a 12-layer GPT-2, more
than half are constants, broadcasts of constants, multiplications by one, reshapes of reshapes, and
copies of decompositions. Everything after this (conversion to StableHLO, the passes, printing)
takes time for each instruction.

torch_xla's own converter makes these simplifications, and a few more, after the conversion. They
keep every bit of the results, with one exception: `x + 0.0` becomes `x`, so a negative zero stays
negative.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lowering.emission import hlo_proto
from lowering.emission.simplify import PURE, RULES, Body, Rule

ERF = "chlo.erf"


class RecordedBody(Body):
    """The instructions of one computation of a recorded graph."""

    shared = PURE

    def rule(self, instruction: Any, opcode: str) -> Rule | None:
        return _RULES.get(opcode)

    def stays(self, opcode: str) -> bool:
        return opcode not in PURE


def _add(body: Body, instruction: Any, operands: list[int]) -> int | None:
    return body.unless_neutral(0, instruction, operands)


def _call(body: Body, instruction: Any, operands: list[int]) -> int | None:
    """Put the instructions of a plainly called computation where the call is."""
    if instruction.is_composite:
        return None
    called = body.called[instruction.called_computation_ids[0]]
    places: list[int] = []
    for inner, opcode, inputs in zip(
        called.instructions, called.opcodes, called.operands, strict=True
    ):
        if opcode == "parameter":
            places.append(operands[inner.parameter_number])
        else:
            copied = hlo_proto.Instruction()
            copied.CopyFrom(inner)
            places.append(body.place(copied, opcode, [places[i] for i in inputs]))
    return places[called.root]


def _erf(body: Body, instruction: Any, operands: list[int]) -> int | None:
    """StableHLO has no erf; the name of a custom call says what it will be."""
    instruction.opcode = "custom-call"
    instruction.custom_call_target = ERF
    return body.append(instruction, "erf", operands)


_RULES: Mapping[str, Rule] = {**RULES, "add": _add, "call": _call, "erf": _erf}
