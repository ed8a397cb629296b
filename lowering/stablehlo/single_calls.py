"""One call of a composite as two small modules with the same inputs: its decomposition, and itself.

`decomposition_module` has the decomposition as `@main`. `call_module` has a `@main` with nothing
but the call, for `bind` and `to_custom_call`.
"""

from .bindings import (
    IrModule,
    IrOperation,
    IrType,
    attributes,
    building,
    dictionary_items,
    find_operations,
    ir,
)
from .composites import Signature, composites_of, signature
from .errors import UnsupportedOperationError
from .module import Module
from .passes.decompose import decompose
from .passes.flatten_calls import flatten_calls
from .symbols import COMPOSITE, CUSTOM_CALL, functions, make_private, rename, uses

_MAIN = "main"
_DECLARATION = "decomposition"


def decomposition_module(module: Module, decomposition: str) -> Module:
    """The decomposition as `@main`, with everything inlined into it."""
    by_name = functions(module.ir)
    if not by_name[decomposition].regions[0].blocks:
        raise UnsupportedOperationError(f"@{decomposition} is a declaration and has no operations")
    with building(module.ir.context):
        result = ir().Module.create()
    for name in (decomposition, *reachable(by_name, by_name[decomposition])):
        copy = by_name[name].clone(ip=False)
        result.body.append(copy)
        if name == decomposition:
            rename(copy, _MAIN)
            if "sym_visibility" in copy.attributes:
                del copy.attributes["sym_visibility"]
    return flatten_calls(decompose(Module(result)))


def call_module(module: Module, call: Signature) -> Module:
    """A module whose `@main` is one call of a composite. Its decomposition is a declaration."""
    composite = next(each for each in composites_of(module.ir) if signature(each) == call)
    with building(module.ir.context):
        result = ir().Module.create()
        type_ = ir().FunctionType.get(
            [value.type for value in composite.operands],
            [value.type for value in composite.results],
        )
        main = empty_function(result, _MAIN, type_)
        block = main.regions[0].blocks.append(*type_.inputs)
        end = ir().InsertionPoint(block)
        named = attributes(composite)
        named["decomposition"] = ir().FlatSymbolRefAttr.get(_DECLARATION)
        copy = ir().Operation.create(
            COMPOSITE,
            results=list(type_.results),
            operands=list(block.arguments),
            attributes=named,
            ip=end,
        )
        ir().Operation.create("func.return", operands=list(copy.results), ip=end)
        make_private(empty_function(result, _DECLARATION, type_))
    return Module(result)


def with_unreadable_attributes(module: Module) -> Module:
    """The same custom calls with attributes of the same names, but of other types."""
    result = module.copy_ir()
    for call in find_operations(result.operation, CUSTOM_CALL):
        with building(result.context):
            number = ir().IntegerAttr.get(ir().IntegerType.get_signless(64), 0)
            text = ir().StringAttr.get("")
            config = {
                name: number if isinstance(value, ir().StringAttr) else text
                for name, value in dictionary_items(call.attributes["backend_config"]).items()
            }
            call.attributes["backend_config"] = ir().DictAttr.get(config)
    return Module(result)


def empty_function(module: IrModule, name: str, type_: IrType) -> IrOperation:
    """A new function without a body."""
    return ir().Operation.create(
        "func.func",
        attributes={
            "sym_name": ir().StringAttr.get(name),
            "function_type": ir().TypeAttr.get(type_),
        },
        regions=1,
        ip=ir().InsertionPoint(module.body),
    )


def reachable(by_name: dict[str, IrOperation], root: IrOperation) -> list[str]:
    """The functions that a function refers to, directly or not."""
    names: list[str] = []
    queue = [root]
    for function in queue:  # grows while it is read
        used = uses(function)
        for target in (*used.composites, *used.calls, *used.others):
            if target in by_name and target not in names:
                names.append(target)
                queue.append(by_name[target])
    return names
