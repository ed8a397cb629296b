"""constant_inputs: arguments of `@main` that have one value become constants."""

from collections.abc import Mapping
from typing import Any

from ..bindings import IrModule, building, dense_elements, ir
from ..errors import UnsupportedOperationError
from ..in_place import in_place
from ..symbols import body, functions, keep_arguments


@in_place
def constant_inputs(module: IrModule, values: Mapping[int, Any]) -> None:
    """Put constants in place of arguments of `@main`, which has fewer arguments then.

    Args:
      values: numpy arrays by the number of the argument, of its shape and element type (its numpy
        or ml_dtypes dtype).

    Raises:
      UnsupportedOperationError: there is no such argument, or it has another shape.
    """
    main = functions(module)["main"]
    block = body(main)
    arguments = [] if block is None else list(block.arguments)
    for number, value in values.items():
        if not 0 <= number < len(arguments):
            raise UnsupportedOperationError(f"@main has no argument {number}")
        argument = arguments[number]
        with building(main.context):
            attribute = dense_elements(value, argument.type.element_type)
            if attribute.type != argument.type:
                raise UnsupportedOperationError(
                    f"argument {number} of @main is {argument.type}, its value {attribute.type}"
                )
            constant = ir().Operation.create(
                "stablehlo.constant",
                results=[argument.type],
                attributes={"value": attribute},
                ip=ir().InsertionPoint.at_block_begin(block),
            )
        argument.replace_all_uses_with(constant.results[0])
    keep_arguments(main, [n for n in range(len(arguments)) if n not in values])
