"""`@main` in parts: each composite by itself, and the operations between two composites.

%0 = stablehlo.constant                      part 0: %1 = stablehlo.dot_general %arg0, %arg1
%1 = stablehlo.dot_general %arg0, %arg1      part 1: %0 = stablehlo.constant
%2 = stablehlo.composite "acme.f" %1, %0  =>         %2 = stablehlo.composite "acme.f" %1, %0
%3 = stablehlo.add %2, %arg0                 part 2: %3 = stablehlo.add %2, %arg0

A constant is in each part that reads it, because some consumers need to see it in the same program.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ..bindings import nested_operations
from ..errors import StableHLOError
from ..inspection.node_data import numbered
from ..ir_types import IrOperation, IrValue
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
    """The number of the last operation in `@main`, counting operations in regions too."""
    inputs: tuple[IrValue, ...]
    sources: tuple[IrValue, ...]
    """The inputs, where arguments of a loop's body are their values in the first iteration."""
    outputs: tuple[IrValue, ...]
    released: tuple[IrValue, ...]
    """Sources and outputs that no later part reads."""
    operations: tuple[IrOperation, ...]
    in_loop: bool
    """True if this is a part of the first iteration of a loop."""

    def module(self, program: Module) -> Module:
        """The part as a program of its own, which takes its inputs and returns its outputs."""
        return extracted(program, self.inputs, self.operations, self.outputs)


def split_main(main: IrOperation) -> list[Part]:
    """Split `@main`, which has one block, into parts in program order. The parts of a loop's body,
    up to its last composite, come before the loop.

    Raises:
        StableHLOError: `@main` calls no composite, or only in branches.
    """
    (block,) = main.regions[0].blocks
    constants: dict[IrValue, IrOperation] = {}
    at_start: dict[IrValue, IrValue] = {}
    groups = _groups(block, constants, at_start)
    if len(groups) == 1:
        raise StableHLOError("nothing to compare: @main calls no composites, or only in branches")
    groups = [group for group in groups if group[0]]
    reads = [_reads(operations) for operations, _ in groups]
    last = {at_start.get(v, v): number for number, read in enumerate(reads) for v in read}
    *_, terminator = block.operations
    returned = set(terminator.operation.operands)
    nodes = {operation: number for number, operation in numbered(main)}

    def part(number: int, operations: list[IrOperation], in_loop: bool) -> Part:
        results = [result for operation in operations for result in operation.results]
        inputs = [value for value in reads[number] if value not in constants]
        sources = tuple(at_start.get(value, value) for value in inputs)
        used = [value for value in results if value in returned or last.get(value, 0) > number]
        outputs = used or results
        return Part(
            operations[0] if operations[0].name == COMPOSITE else None,
            nodes[operations[-1]],
            tuple(inputs),
            sources,
            tuple(outputs),
            tuple(v for v in dict.fromkeys((*sources, *outputs)) if last.get(v, 0) <= number),
            (*(constants[value] for value in reads[number] if value in constants), *operations),
            in_loop,
        )

    return [part(number, *group) for number, group in enumerate(groups)]


def _groups(
    block: IrOperation,
    constants: dict[IrValue, IrOperation],
    at_start: dict[IrValue, IrValue],
    in_loop: bool = False,
) -> list[tuple[list[IrOperation], bool]]:
    """The composites of a block and of its loops' bodies, and the operations between them, with
    True in a loop. Fills `constants`, and `at_start` with the first values of arguments of
    bodies."""
    groups: list[tuple[list[IrOperation], bool]] = [([], in_loop)]
    *operations, _ = (view.operation for view in block.operations)
    for operation in operations:
        if operation.name == COMPOSITE:
            groups += [([operation], in_loop), ([], in_loop)]
        elif operation.name == _CONSTANT:
            constants[operation.results[0]] = operation
        else:
            if operation.name == "stablehlo.while":
                (body,) = operation.regions[1].blocks
                first = [at_start.get(value, value) for value in operation.operands]
                at_start |= zip(body.arguments, first, strict=True)
                read = [constants[value] for value in dict.fromkeys(first) if value in constants]
                if body_groups := _groups(body, constants, at_start, in_loop=True)[:-1]:
                    groups += [(read, in_loop), *body_groups, ([], in_loop)]
            groups[-1][0].append(operation)
    return groups


def _reads(group: Sequence[IrOperation]) -> dict[IrValue, None]:
    """The values that operations, and operations in their regions, read and do not produce."""
    values: dict[IrValue, None] = {}
    produced: set[IrValue] = set()
    for operation in group:
        for inner in nested_operations(operation):
            values |= dict.fromkeys(inner.operands)
            blocks = (block for region in inner.regions for block in region.blocks)
            produced.update(inner.results, *(block.arguments for block in blocks))
    return {value: None for value in values if value not in produced}
