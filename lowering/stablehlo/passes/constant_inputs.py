"""constant_inputs: replace arguments of `@main` that have a fixed value by constants."""

from collections.abc import Mapping
from typing import Any

from composites.lazy_modules import np

from ..bindings import LARGEST_BOOLEAN_CONSTANT, building, dense_elements, ir
from ..errors import UnsupportedOperationError
from ..in_place import in_place
from ..insertion import inserted
from ..ir_types import IrModule, IrOperation, IrType, IrValue
from ..symbols import body, functions, keep_arguments


@in_place
def constant_inputs(module: IrModule, values: Mapping[int, Any]) -> None:
    """Replace arguments of `@main` by constants. The arguments are removed.

    Args:
        values: numpy arrays by the number of the argument. Each has the argument's shape and
            element type (its numpy or ml_dtypes dtype).

    Raises:
        UnsupportedOperationError: an argument does not exist, or has another shape.
    """
    main = functions(module)["main"]
    block = body(main)
    arguments = [] if block is None else list(block.arguments)
    first = None if block is None else block.operations[0].operation
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
