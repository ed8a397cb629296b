"""`@main` in parts: each composite by itself, and the operations between two of them.

%0 = stablehlo.constant                      part 0: %1 = stablehlo.dot_general %arg0, %arg1
%1 = stablehlo.dot_general %arg0, %arg1      part 1: %0 = stablehlo.constant
%2 = stablehlo.composite "acme.f" %1, %0  =>         %2 = stablehlo.composite "acme.f" %1, %0
%3 = stablehlo.add %2, %arg0                 part 2: %3 = stablehlo.add %2, %arg0

A constant is in each part that reads it, because some consumers want to see it there.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ..bindings import IrOperation, IrValue, nested_operations
from ..errors import StableHLOError
from ..inspection.node_data import numbered
from ..module import Module
from ..single_calls import extracted
from ..symbols import COMPOSITE

_CONSTANT = "stablehlo.constant"


@dataclass(frozen=True, eq=False)
class Part:
    """A part of `@main`."""

    composite: IrOperation | None
    """The composite; None for operations outside composites."""
    node: int
    """The number of the last operation in `@main`, where those in regions are counted too."""
    inputs: tuple[IrValue, ...]
    outputs: tuple[IrValue, ...]
    released: tuple[IrValue, ...]
    """Inputs and outputs that no later part reads."""
    operations: tuple[IrOperation, ...]

    def module(self, program: Module) -> Module:
        """The part as a program of its own, which takes its inputs and returns its outputs."""
        return extracted(program, self.inputs, self.operations, self.outputs)


def parts_of(main: IrOperation) -> list[Part]:
    """The parts of `@main`, which has one block, in program order.

    Raises:
        StableHLOError: it calls no composite outside of loops and other regions.
    """
    (block,) = main.regions[0].blocks
    *operations, terminator = (each.operation for each in block.operations)
    groups: list[list[IrOperation]] = [[]]
    for operation in operations:
        if operation.name == COMPOSITE:
            groups += [[operation], []]
        elif operation.name != _CONSTANT:
            groups[-1].append(operation)
    if len(groups) == 1:
        raise StableHLOError(
            "@main calls no composites outside of loops, so there is nothing to compare"
        )
    groups = [group for group in groups if group]
    reads = [_reads(group) for group in groups]
    last = {value: number for number, read in enumerate(reads) for value in read}
    constants = {each.results[0]: each for each in operations if each.name == _CONSTANT}
    known = {*block.arguments, *(value for each in operations for value in each.results)}
    returned = set(terminator.operands)
    nodes = {operation: number for number, operation in numbered(main)}

    def part(number: int, group: list[IrOperation]) -> Part:
        made = [result for operation in group for result in operation.results]
        outside = [value for value in reads[number] if value in known and value not in made]
        inputs = [value for value in outside if value not in constants]
        used = [value for value in made if value in returned or last.get(value, 0) > number]
        outputs = used or made
        return Part(
            group[0] if group[0].name == COMPOSITE else None,
            nodes[group[-1]],
            tuple(inputs),
            tuple(outputs),
            tuple(value for value in (*inputs, *outputs) if last.get(value, 0) <= number),
            (*(constants[value] for value in outside if value in constants), *group),
        )

    return [part(number, group) for number, group in enumerate(groups)]


def _reads(group: Sequence[IrOperation]) -> dict[IrValue, None]:
    """The values that operations and those in their regions read, each once."""
    values: dict[IrValue, None] = {}
    for operation in group:
        for each in nested_operations(operation):
            values |= dict.fromkeys(each.operands)
    return values
