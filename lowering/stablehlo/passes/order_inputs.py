"""order_inputs: the arguments of `@main` in an order that means something to its caller."""

from collections.abc import Sequence

from ..bindings import IrModule
from ..errors import UnsupportedOperationError
from ..in_place import in_place
from ..symbols import body, functions, keep_arguments


@in_place
def order_inputs(module: IrModule, order: Sequence[int]) -> None:
    """Reorder the arguments of `@main`: argument `i` becomes what argument `order[i]` was.

    Raises:
      UnsupportedOperationError: `order` is no permutation of the arguments.
    """
    main = functions(module)["main"]
    block = body(main)
    count = 0 if block is None else len(block.arguments)
    if block is None or sorted(order) != list(range(count)):
        raise UnsupportedOperationError(
            f"@main has {count} arguments, which {list(order)} does not put in order"
        )
    keep_arguments(main, order)
