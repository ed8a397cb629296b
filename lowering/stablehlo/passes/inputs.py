"""Passes for the arguments of `@main`.

- constant_inputs replaces arguments that have a fixed value by constants.
- join_inputs replaces integer arguments by linear functions of one of them:

      @main(%a: tensor<i64>, %b: tensor<i64>)      with Linear(factor=3, offset=2) for %b

      @main(%a: tensor<i64>)
        %0 = multiply %a, 3
        %1 = add %0, 2      in the place of %b

- order_inputs puts the arguments in the caller's order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from composites.lazy_modules import np

from ..bindings import (
    LARGEST_BOOLEAN_CONSTANT,
    IrModule,
    IrOperation,
    IrType,
    IrValue,
    building,
    dense_elements,
    ir,
)
from ..errors import UnsupportedOperationError
from ..in_place import in_place
from ..insertion import constant, inserted
from ..symbols import body, functions, keep_arguments


@in_place
def constant_inputs(module: IrModule, values: Mapping[int, Any]) -> None:
    """Replace arguments of `@main` by constants. The arguments are removed.

    Args:
        values: numpy arrays by the number of the argument. Each has the argument's shape and
            element type (its numpy or ml_dtypes dtype).

    Raises:
        UnsupportedOperationError: there is no such argument, or it has another shape.
    """
    main, arguments, first = _main(module)
    for number, value in values.items():
        if not 0 <= number < len(arguments):
            raise UnsupportedOperationError(f"@main has no argument {number}")
        argument = arguments[number]
        with building(main.context):
            shape = [argument.type.get_dim_size(axis) for axis in range(argument.type.rank)]
            if list(value.shape) != shape:
                raise UnsupportedOperationError(
                    f"argument {number} of @main is {argument.type}, but its value has shape"
                    f" {tuple(value.shape)}"
                )
            argument.replace_all_uses_with(_constant(value, argument.type, first))
    keep_arguments(main, [n for n in range(len(arguments)) if n not in values])


def _constant(value: Any, type_: IrType, before: IrOperation) -> IrValue:
    if value.dtype == np.bool_ and value.size > LARGEST_BOOLEAN_CONSTANT:
        byte = ir().IntegerType.get_unsigned(8)
        wide = ir().RankedTensorType.get(value.shape, byte)
        bytes_ = _constant(value.astype(np.uint8), wide, before)
        return inserted(before, "stablehlo.convert", type_, bytes_)
    elements = dense_elements(value, type_.element_type)
    return inserted(before, "stablehlo.constant", type_, value=elements)


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
    main, arguments, first = _main(module)
    uses = {number: list(arguments[number].uses) for number in joined}
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


@in_place
def order_inputs(module: IrModule, order: Sequence[int]) -> None:
    """Reorder the arguments of `@main`: the new argument `i` is the old argument `order[i]`.

    Raises:
        UnsupportedOperationError: `order` is not a permutation of the arguments.
    """
    main, arguments, _ = _main(module)
    if sorted(order) != list(range(len(arguments))):
        raise UnsupportedOperationError(
            f"{list(order)} is not a permutation of the {len(arguments)} arguments of @main"
        )
    keep_arguments(main, order)


def _main(module: IrModule) -> tuple[IrOperation, list[IrValue], IrOperation]:
    """`@main`, its arguments, and its first operation."""
    main = functions(module)["main"]
    block = body(main)
    if block is None:
        raise UnsupportedOperationError("@main has no body, or several blocks")
    return main, list(block.arguments), block.operations[0].operation
