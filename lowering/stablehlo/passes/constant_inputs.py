"""constant_inputs: replace arguments of `@main` that have a fixed value by constants."""

from collections.abc import Mapping
from typing import Any

from ..bindings import (
    LARGEST_BOOLEAN_CONSTANT,
    IrModule,
    IrType,
    IrValue,
    building,
    dense_elements,
    ir,
)
from ..errors import UnsupportedOperationError
from ..in_place import in_place
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
    main = functions(module)["main"]
    block = body(main)
    arguments = [] if block is None else list(block.arguments)
    first = None if block is None else block.operations[0]
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
            constant = _constant(value, argument.type, ir().InsertionPoint(first))
        argument.replace_all_uses_with(constant)
    keep_arguments(main, [n for n in range(len(arguments)) if n not in values])


def _constant(value: Any, type_: IrType, at: Any) -> IrValue:
    import numpy as np

    if value.dtype == np.bool_ and value.size > LARGEST_BOOLEAN_CONSTANT:
        byte = ir().IntegerType.get_unsigned(8)
        bytes_ = _constant(value.astype(np.uint8), ir().RankedTensorType.get(value.shape, byte), at)
        converted = ir().Operation.create(
            "stablehlo.convert", results=[type_], operands=[bytes_], ip=at
        )
        return converted.results[0]
    attributes = {"value": dense_elements(value, type_.element_type)}
    constant = ir().Operation.create(
        "stablehlo.constant", results=[type_], attributes=attributes, ip=at
    )
    return constant.results[0]
