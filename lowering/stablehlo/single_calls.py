"""One call of a composite as two small modules with equal inputs: decomposition, and call.

`call_module` makes a `@main` that holds only the call, for `bind` and `to_custom_call`.
`decomposition_module` makes the same `@main` with everything inlined.
"""

from collections.abc import Iterable, Sequence

from .bindings import building, dictionary_items, find_operations, ir, nested_operations
from .composites import Signature, find_composites, signature
from .errors import UnsupportedOperationError
from .ir_types import IrModule, IrOperation, IrValue
from .module import Module
from .passes.decompositions import decompose, flatten_calls
from .symbols import CUSTOM_CALL, functions, make_private, target, uses


def decomposition_module(module: Module, decomposition: str) -> Module:
    """The decomposition as `@main`, with everything inlined into it."""
    if not functions(module.ir)[decomposition].regions[0].blocks:
        raise UnsupportedOperationError(f"@{decomposition} is a declaration and has no operations")
    composite = next(c for c in find_composites(module.ir) if target(c) == decomposition)
    return flatten_calls(decompose(_alone(module, composite)))


def call_module(module: Module, call: Signature) -> Module:
    """A module whose `@main` is one call of a composite."""
    return _alone(module, next(c for c in find_composites(module.ir) if signature(c) == call))


def _alone(module: Module, composite: IrOperation) -> Module:
    return extracted(module, [*composite.operands], [composite], composite.results)


def extracted(
    program: Module,
    inputs: Sequence[IrValue],
    operations: Iterable[IrOperation],
    outputs: Iterable[IrValue],
) -> Module:
    """Extract operations of a program into a program of their own, which takes `inputs` and returns
    `outputs`. A value that is an input several times is read once from each argument."""
    with building(program.ir.context):
        result = ir().Module.create()
        types = [[value.type for value in values] for values in (inputs, outputs)]
        main = ir().Operation.create(
            "func.func",
            attributes={
                "sym_name": ir().StringAttr.get("main"),
                "function_type": ir().TypeAttr.get(ir().FunctionType.get(*types)),
            },
            regions=1,
            ip=ir().InsertionPoint(result.body),
        )
        block = main.regions[0].blocks.append(*types[0])
        end = ir().InsertionPoint(block)
        copies: dict[IrValue, list[IrValue]] = {}
        for value, argument in zip(inputs, block.arguments, strict=True):
            copies.setdefault(value, []).append(argument)
        for operation in operations:
            copy = operation.clone(ip=end).operation
            for inner in nested_operations(copy):
                for number, operand in enumerate(inner.operands):
                    if operand in copies:
                        first, *others = copies[operand]
                        inner.operands[number] = first
                        copies[operand] = others or [first]
            copies |= {v: [c] for v, c in zip(operation.results, copy.results, strict=True)}
        ir().Operation.create("func.return", operands=[copies[v][0] for v in outputs], ip=end)
    return _with_functions(result, program)


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


def _with_functions(module: IrModule, program: Module) -> Module:
    """A new module, with copies of the program's meshes and of the functions that it refers to,
    directly or indirectly."""
    by_name, copied = functions(program.ir), functions(module)
    for operation in program.ir.body.operations:
        if operation.operation.name == "sdy.mesh":
            module.body.append(operation.operation.clone(ip=False))
    queue = list(copied.values())
    for function in queue:  # grows while it is read
        used = uses(function)
        for name in (*used.composites, *used.calls, *used.others):
            if name in by_name and name not in copied:
                copied[name] = by_name[name].clone(ip=False)
                make_private(copied[name])
                module.body.append(copied[name])
                queue.append(copied[name])
    return Module(module)
