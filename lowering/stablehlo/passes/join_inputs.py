"""join_inputs: replace integer arguments of `@main` by linear functions of another argument.

@main(%a: tensor<i64>, %b: tensor<i64>)      with Linear(factor=3, offset=2) for %b

@main(%a: tensor<i64>)
  %0 = multiply %a, 3
  %1 = add %0, 2      replaces %b
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ..bindings import building
from ..in_place import in_place
from ..insertion import constant, inserted
from ..ir_types import IrModule, IrOperation, IrValue
from ..symbols import body, functions, keep_arguments


@dataclass(frozen=True, slots=True)
class Linear:
    """A linear function of a number: `factor * number + offset`, in 64 bits that wrap."""

    factor: int
    offset: int


@in_place
def join_inputs(module: IrModule, base: int, joined: Mapping[int, Linear]) -> None:
    """Compute arguments of `@main` from one argument, and remove them.

    Args:
        base: the number of the argument that stays.
        joined: the functions of the base argument, by the number of the argument that they replace.
            All are `tensor<i64>`. Uses of the base argument itself may also read a function.
    """
    main = functions(module)["main"]
    block = body(main)
    assert block is not None
    arguments = list(block.arguments)
    uses = {number: list(arguments[number].uses) for number in joined}
    with building(main.context):
        first = block.operations[0].operation
        for number, linear in joined.items():
            value = _linear(arguments[base], linear, first)
            for use in uses[number]:
                use.owner.operation.operands[use.operand_number] = value
    keep_arguments(main, [n for n in range(len(arguments)) if n == base or n not in joined])


def _linear(number: IrValue, linear: Linear, before: IrOperation) -> IrValue:
    value = number
    for operation, operand, neutral in (("multiply", linear.factor, 1), ("add", linear.offset, 0)):
        if operand != neutral:
            literal = constant(before, number.type, str(operand))
            value = inserted(before, f"stablehlo.{operation}", number.type, value, literal)
    return value
