"""Counting the instructions of an HLO graph that are worth a kernel, for `composites suggest` and
`benchmarks/share.py`.

Parameters and tuples are not work. Backends match dots and convolutions, with the transposes and
reshapes around them, without a composite. Instructions inside composites are not counted.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_NO_WORK = ("parameter", "tuple", "get-tuple-element", "call")
_PRODUCTS = ("dot", "convolution")
_AROUND_PRODUCTS = ("transpose", "reshape")


@dataclass(frozen=True, slots=True)
class Work:
    """An instruction that is counted, a product, or a composite."""

    instruction: Any
    operands: tuple[Any, ...]
    """The instructions whose values `instruction` reads."""
    top_level: Any
    """The instruction of the entry computation that is, or calls, the instruction."""
    is_product: bool = False
    is_composite: bool = False

    @property
    def is_counted(self) -> bool:
        """True if the instruction is outside of composites and worth a kernel."""
        return not (self.is_product or self.is_composite)


def count(module: Any) -> tuple[Counter[str], int]:
    """Instructions outside composites by opcode, and the number of composites."""
    counted: Counter[str] = Counter()
    calls = 0
    for work in read_work(module):
        if work.is_composite:
            calls += 1
        elif work.is_counted:
            counted[work.instruction.opcode] += 1
    return counted, calls


def read_work(module: Any) -> Iterator[Work]:
    """The counted instructions of a graph, its products, and its composites."""
    by_id = {computation.id: computation for computation in module.computations}
    pending: list[tuple[int, Any]] = [(module.entry_computation_id, None)]
    while pending:
        number, caller = pending.pop()
        computation = by_id[number]
        instructions = {instruction.id: instruction for instruction in computation.instructions}
        ignored = _around_products(computation, instructions)
        for instruction in computation.instructions:
            operands = tuple(instructions[operand] for operand in instruction.operand_ids)
            top = instruction if caller is None else caller
            if instruction.is_composite:
                yield Work(instruction, operands, top, is_composite=True)
                continue
            pending.extend((called, top) for called in instruction.called_computation_ids)
            if instruction.opcode in _PRODUCTS:
                yield Work(instruction, operands, top, is_product=True)
            elif instruction.opcode not in _NO_WORK and instruction.id not in ignored:
                yield Work(instruction, operands, top)


def _around_products(computation: Any, by_id: dict[int, Any]) -> set[int]:
    """Dots and convolutions, and instructions that only move data to and from them."""
    users: dict[int, list[int]] = {}
    for instruction in computation.instructions:
        for operand in instruction.operand_ids:
            users.setdefault(operand, []).append(instruction.id)
    around: set[int] = set()
    for instruction in computation.instructions:
        if instruction.opcode in _PRODUCTS:
            around.add(instruction.id)
            for step in (lambda i: by_id[i].operand_ids, lambda i: users.get(i, ())):
                pending = list(step(instruction.id))
                while pending:
                    near = pending.pop()
                    if by_id[near].opcode in _AROUND_PRODUCTS and near not in around:
                        around.add(near)
                        pending.extend(step(near))
    return around
