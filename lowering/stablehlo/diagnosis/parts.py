"""`@main` in parts: each composite by itself, and the operations between two of them.

%0 = stablehlo.constant                      part 0: %1 = stablehlo.dot_general %arg0, %arg1
%1 = stablehlo.dot_general %arg0, %arg1      part 1: %0 = stablehlo.constant
%2 = stablehlo.composite "acme.f" %1, %0  =>         %2 = stablehlo.composite "acme.f" %1, %0
%3 = stablehlo.add %2, %arg0                 part 2: %3 = stablehlo.add %2, %arg0
return %3

A constant is part of each piece that reads it, because some consumers want to see it there.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ..bindings import IrModule, IrOperation, IrValue, building, ir, walk
from ..comparison.isolate import empty_function, reachable
from ..composites import Signature, composites_of, signature
from ..errors import RunError, StableHLOError
from ..module import Module
from ..symbols import COMPOSITE, body, functions

_CONSTANT = "stablehlo.constant"


@dataclass(frozen=True, eq=False)
class Part:
    """A piece of `@main`."""

    call: Signature | None
    """The composite that the part consists of; None for operations outside composites."""
    node: int
    """The number of the part's last operation among all of `@main`, in program order and with those
    of regions."""
    inputs: tuple[IrValue, ...]
    outputs: tuple[IrValue, ...]
    released: tuple[IrValue, ...]
    """Inputs and outputs that no later part reads."""
    operations: tuple[IrOperation, ...]
    """The operations, with the constants that they read."""

    def module(self, program: Module) -> Module:
        """The part as a module whose `@main` takes the inputs and returns the outputs."""
        with building(program.ir.context):
            result = ir().Module.create()
            type_ = ir().FunctionType.get(
                [value.type for value in self.inputs], [value.type for value in self.outputs]
            )
            main = empty_function(result, "main", type_)
            block = main.regions[0].blocks.append(*type_.inputs)
            end = ir().InsertionPoint(block)
            copies = dict(zip(self.inputs, block.arguments, strict=True))
            for operation in self.operations:
                copy = operation.clone(ip=end).operation
                _replace_operands(copy, copies)
                copies |= zip(operation.results, copy.results, strict=True)
            values = [copies[value] for value in self.outputs]
            ir().Operation.create("func.return", operands=values, ip=end)
            _add_functions(result, main, program.ir)
        return Module(result)


def parts_of(program: Module) -> tuple[list[Part], int]:
    """The parts of `@main` in program order, and the number of composites in its loops and other
    regions, which are no parts of their own.

    Raises:
        RunError: there is no `@main` with one block.
        StableHLOError: it calls no composite outside of regions.
    """
    main = functions(program.ir).get("main")
    block = None if main is None else body(main)
    if main is None or block is None:
        raise RunError("the module has no function @main with one block to run")
    *operations, terminator = (each.operation for each in block.operations)
    groups = _groups(operations)
    calls = sum(operation.name == COMPOSITE for operation in operations)
    if not calls:
        others = len(composites_of(program.ir))
        where = f"; its {others} composites are in loops or functions" if others else ""
        raise StableHLOError(f"@main calls no composites, so there is nothing to compare{where}")
    reads = [list(_reads(group)) for group in groups]
    last = {value: number for number, read in enumerate(reads) for value in read}
    returned = set(terminator.operands)
    made = {result for operation in operations for result in operation.results}
    known = made.union(block.arguments)
    constants = {op.results[0]: op for op in operations if op.name == _CONSTANT}
    nodes = _numbers(main)
    parts = []
    for number, (group, read) in enumerate(zip(groups, reads, strict=True)):
        own = [result for operation in group for result in operation.results]
        outside = [value for value in read if value in known and value not in own]
        read_later = [value for value in own if last.get(value, -1) > number]
        outputs = [value for value in own if value in returned or value in read_later] or own
        inputs = [value for value in outside if value not in constants]
        taken = [constants[value] for value in outside if value in constants]
        parts.append(
            Part(
                call=signature(group[0]) if group[0].name == COMPOSITE else None,
                node=nodes[group[-1]],
                inputs=tuple(inputs),
                outputs=tuple(outputs),
                released=tuple(v for v in (*inputs, *outputs) if last.get(v, -1) <= number),
                operations=(*taken, *group),
            )
        )
    return parts, sum(op.name == COMPOSITE for op in nodes) - calls


def _groups(operations: Sequence[IrOperation]) -> list[list[IrOperation]]:
    """Each composite alone, and the operations between two of them. Constants are in none."""
    groups: list[list[IrOperation]] = [[]]
    for operation in operations:
        if operation.name == COMPOSITE:
            groups += [[operation], []]
        elif operation.name != _CONSTANT:
            groups[-1].append(operation)
    return [group for group in groups if group]


def _reads(group: Sequence[IrOperation]) -> dict[IrValue, None]:
    """The values that operations and those in their regions read, each once."""
    values: dict[IrValue, None] = {}
    for operation in group:
        walk(operation, lambda each: values.update(dict.fromkeys(each.operands)))
    return values


def _numbers(function: IrOperation) -> dict[IrOperation, int]:
    """The operations of a function by number, as Model Explorer counts them."""
    numbers: dict[IrOperation, int] = {}

    def visit(operation: IrOperation) -> None:
        numbers[operation.operation] = len(numbers) - 1  # the function itself is visited first

    walk(function, visit)
    return numbers


def _replace_operands(operation: IrOperation, values: dict[IrValue, IrValue]) -> None:
    def replace(each: IrOperation) -> None:
        for number, operand in enumerate(each.operands):
            if operand in values:
                each.operands[number] = values[operand]

    walk(operation, replace)


def _add_functions(module: IrModule, main: IrOperation, program: IrModule) -> None:
    """Copy the functions of a program that `main` refers to."""
    by_name = functions(program)
    for name in reachable(by_name, main):
        module.body.append(by_name[name].clone(ip=False))
