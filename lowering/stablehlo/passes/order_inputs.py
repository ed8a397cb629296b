"""order_inputs: put the arguments of `@main` in the caller's order."""

from collections.abc import Sequence

from ..errors import UnsupportedOperationError
from ..in_place import in_place
from ..ir_types import IrModule
from ..symbols import body, functions, keep_arguments


@in_place
def order_inputs(module: IrModule, order: Sequence[int]) -> None:
    """Reorder the arguments of `@main`: the new argument `i` is the old argument `order[i]`.

    Raises:
        UnsupportedOperationError: `order` is not a permutation of the arguments.
    """
    main = functions(module)["main"]
    block = body(main)
    count = 0 if block is None else len(block.arguments)
    if block is None or sorted(order) != list(range(count)):
        raise UnsupportedOperationError(
            f"{list(order)} is not a permutation of the {count} arguments of @main"
        )
    keep_arguments(main, order)
