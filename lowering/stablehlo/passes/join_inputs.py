"""join_inputs: replace integer arguments of `@main` by linear functions of one of them.

@main(%a: tensor<i64>, %b: tensor<i64>)      with Linear(factor=3, offset=2) for %b

@main(%a: tensor<i64>)
  %0 = multiply %a, 3
  %1 = add %0, 2      in the place of %b
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
    """A number as a function of another one: `factor * number + offset`, in 64 bits that wrap."""

    factor: int
    offset: int


@in_place
def join_inputs(module: IrModule, one: int, joined: Mapping[int, Linear]) -> None:
    """Compute arguments of `@main` from one of them. The others are removed.

    Args:
        one: the number of the argument that stays.
        joined: the functions of it, by the number of the argument. All are `tensor<i64>`. The one
            that stays may be among them: its uses then read the function of it.
    """
    main = functions(module)["main"]
    block = body(main)
    assert block is not None
    arguments = list(block.arguments)
    uses = {number: list(arguments[number].uses) for number in joined}
    with building(main.context):
        first = block.operations[0].operation
        for number, linear in joined.items():
            value = _linear(arguments[one], linear, first)
            for use in uses[number]:
                use.owner.operation.operands[use.operand_number] = value
    keep_arguments(main, [n for n in range(len(arguments)) if n == one or n not in joined])


def _linear(number: IrValue, linear: Linear, before: IrOperation) -> IrValue:
    value = number
    for operation, operand, neutral in (("multiply", linear.factor, 1), ("add", linear.offset, 0)):
        if operand != neutral:
            other = constant(before, number.type, str(operand))
            value = inserted(before, f"stablehlo.{operation}", number.type, value, other)
    return value
