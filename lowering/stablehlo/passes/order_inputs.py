"""order_inputs: the arguments of `@main` in an order that means something to its caller."""

from collections.abc import Sequence

from ..bindings import IrModule, building, ir
from ..errors import UnsupportedOperationError
from ..in_place import in_place
from ..symbols import body, functions


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
    old = list(block.arguments)
    with building(main.context):
        new = [block.add_argument(old[index].type, old[index].location) for index in order]
        for index, argument in zip(order, new, strict=True):
            old[index].replace_all_uses_with(argument)
        for index in reversed(range(count)):
            block.erase_argument(index)
        results = main.attributes["function_type"].value.results
        type_ = ir().FunctionType.get([argument.type for argument in block.arguments], results)
        main.attributes["function_type"] = ir().TypeAttr.get(type_)
        if "arg_attrs" in main.attributes:
            attributes = main.attributes["arg_attrs"]
            main.attributes["arg_attrs"] = ir().ArrayAttr.get([attributes[i] for i in order])
