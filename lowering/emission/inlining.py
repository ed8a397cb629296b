"""Inlining the plain calls inside a decomposition.

A computation that is inserted into a graph arrives as a call of a separate computation. Inside a
decomposition, such a call has no use and makes the text harder to read. Calls that are composites
stay, as nested composites.
"""

from collections.abc import Iterator, Mapping
from typing import Any


def inline_calls(computation: Any, by_id: Mapping[int, Any]) -> None:
    """Inline, in place, every call in `computation` that is not a composite.

    Args:
        computation: HLO computation (protobuf).
        by_id: all computations of its module, by id.
    """
    if not any(map(_is_plain_call, computation.instructions)):
        return
    inliner = _Inliner(by_id)
    root = inliner.inline(computation, None)
    instructions = inliner.instructions
    computation.ClearField("instructions")
    computation.instructions.extend(instructions)
    computation.root_id = root


def _is_plain_call(instruction: Any) -> bool:
    return instruction.opcode == "call" and not instruction.is_composite


class _Inliner:
    """Collects the instructions of a computation and of its callees, with new ids."""

    def __init__(self, by_id: Mapping[int, Any]) -> None:
        self.by_id = by_id
        self.instructions: list[Any] = []
        self._ids: Iterator[int] = iter(range(1, 1 << 62))
        self._tuples: dict[int, list[int]] = {}

    def inline(self, computation: Any, operands: list[int] | None) -> int:
        """Add a computation's instructions and return the new id of its root.

        Args:
            operands: new ids of the parameters' values; None to keep the parameters.
        """
        new: dict[int, int] = {}
        for instruction in computation.instructions:  # operands come before their users
            inputs = [new[i] for i in instruction.operand_ids]
            if operands is not None and instruction.opcode == "parameter":
                new[instruction.id] = operands[instruction.parameter_number]
            elif _is_plain_call(instruction):
                callee = self.by_id[instruction.called_computation_ids[0]]
                new[instruction.id] = self.inline(callee, inputs)
            elif instruction.opcode == "get-tuple-element" and inputs[0] in self._tuples:
                new[instruction.id] = self._tuples[inputs[0]][instruction.tuple_index]
            else:
                new[instruction.id] = self._add(instruction, inputs, new)
        return new[computation.root_id]

    def _add(self, instruction: Any, inputs: list[int], new: Mapping[int, int]) -> int:
        copied = type(instruction)()
        copied.CopyFrom(instruction)
        copied.id = next(self._ids)
        copied.operand_ids[:] = inputs
        copied.control_predecessor_ids[:] = [new[i] for i in instruction.control_predecessor_ids]
        self.instructions.append(copied)
        if copied.opcode == "tuple":
            self._tuples[copied.id] = inputs
        return int(copied.id)
