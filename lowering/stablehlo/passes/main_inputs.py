"""The arguments of `@main`: constants instead of them, fewer or more of them, another order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from composites.lazy_modules import np

from ..bindings import LARGEST_BOOLEAN_CONSTANT, building, dense_elements, ir
from ..errors import UnsupportedOperationError
from ..in_place import in_place
from ..insertion import constant, inserted
from ..ir_types import IrModule, IrOperation, IrType, IrValue
from ..symbols import body, functions, keep_arguments, update_type


@in_place
def constant_inputs(module: IrModule, values: Mapping[int, Any]) -> None:
    """Replace arguments of `@main` by constants. The arguments are removed.

    Args:
        values: numpy arrays by the number of the argument. Each has the argument's shape and
            element type (its numpy or ml_dtypes dtype).

    Raises:
        UnsupportedOperationError: an argument does not exist, or has another shape.
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
            constant = _constant(value, argument.type, first)
        argument.replace_all_uses_with(constant)
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
    """A linear function of a number: `factor * number + offset`, in 64 bits that wrap."""

    factor: int
    offset: int


@in_place
def join_inputs(module: IrModule, base: int, joined: Mapping[int, Linear]) -> None:
    """Compute integer arguments of `@main` from another argument, and remove them.

        @main(%a: tensor<i64>, %b: tensor<i64>)      with Linear(factor=3, offset=2) for %b

        @main(%a: tensor<i64>)
          %0 = multiply %a, 3
          %1 = add %0, 2      replaces %b

    Args:
        base: the number of the argument that stays.
        joined: the functions of the base argument, by the number of the argument that they replace.
            All are `tensor<i64>`. Uses of the base argument itself may also read a function.
    """
    main, arguments, first = _main(module)
    uses = {number: list(arguments[number].uses) for number in joined}
    with building(main.context):
        for number, linear in joined.items():
            value = _linear(arguments[base], linear, first)
            for use in uses[number]:
                use.owner.operation.operands[use.operand_number] = value
    keep_arguments(main, [n for n in range(len(arguments)) if n == base or n not in joined])


def _linear(number: IrValue, linear: Linear, before: IrOperation) -> IrValue:
    value = number
    for operation, operand, neutral in (("multiply", linear.factor, 1), ("add", linear.offset, 0)):
        if operand != neutral:
            literal = constant(before, number.type, operand)
            value = inserted(before, f"stablehlo.{operation}", number.type, value, literal)
    return value


@in_place
def add_inputs(module: IrModule, types: Sequence[str]) -> None:
    """Append arguments that nothing reads to those of `@main`.

    Args:
        types: the types of the new arguments, such as `tensor<2x4xf32>`.
    """
    main, *_ = _main(module)
    block = body(main)
    assert block is not None
    with building(main.context):
        unknown, none = ir().Location.unknown(), ir().DictAttr.get({})
        for type_ in types:
            block.add_argument(ir().Type.parse(type_), unknown)
        if "arg_attrs" in main.attributes:
            attributes = [*main.attributes["arg_attrs"], *(none for _ in types)]
            main.attributes["arg_attrs"] = ir().ArrayAttr.get(attributes)
    update_type(main)


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
