"""refine: fix the sizes of a program whose sizes vary.

    func.func @main(%arg0: tensor<?x4xf32>) -> tensor<?x4xf32>
        =>
    func.func @main(%arg0: tensor<5x4xf32>) -> tensor<5x4xf32>

The official passes do the work: `stablehlo-refine-arguments`, `stablehlo-refine-shapes` and
`stablehlo-canonicalize-dynamism`. They follow calls but not composites, so composites become calls
in the meantime, each of its own function.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from . import bindings
from .bindings import attributes, find_operations, ir, made_by
from .composites import composite_name
from .errors import DynamicSizeError, VerificationError
from .insertion import inserted, replace_operation
from .ir_types import IrModule, IrOperation
from .module import Module
from .passes.decompositions import (
    drop_unused_functions,
    flatten_calls,
    rename_decompositions,
    share_decompositions,
    unshare_decompositions,
)
from .pipeline import run_passes
from .symbols import CALL, COMPOSITE, target

_BARRIER = "stablehlo.optimization_barrier"


def refine(module: Module, inputs: Sequence[str]) -> Module:
    """Return the program for arguments of fixed types, with its composites.

    Args:
        inputs: a tensor type for each argument of `@main`, such as `tensor<5x4xf32>`.

    Raises:
        DynamicSizeError: the program cannot have the sizes.
    """
    prepared = run_passes(module, [flatten_calls, unshare_decompositions], verify=False)
    result = prepared.copy_ir()
    composites = _as_calls(result)
    types = ",".join(inputs)
    try:
        bindings.run_pipeline(
            result,
            f"builtin.module(stablehlo-refine-arguments{{types={types}}},stablehlo-refine-shapes,"
            "func.func(stablehlo-canonicalize-dynamism),stablehlo-refine-shapes,"
            "func.func(canonicalize,cse))",
        )
    except VerificationError as error:
        raise DynamicSizeError(f"the program cannot have inputs of {types}: {error}") from error
    _as_composites(result, composites)
    _check_static(result)
    cleaned = run_passes(
        drop_unused_functions(Module(result)), [share_decompositions, rename_decompositions]
    )
    cleaned.verify()
    return cleaned


def _as_calls(module: IrModule) -> dict[str, Mapping[str, Any]]:
    """Replace composites by calls. Return the attributes of the composites, by called function."""
    named: dict[str, Mapping[str, Any]] = {}
    for composite in find_operations(module.operation, COMPOSITE):
        name = target(composite)
        named[name] = attributes(composite)
        callee = ir().FlatSymbolRefAttr.get(name, composite.context)
        operands = [_guarded(value, composite) for value in composite.operands]
        replace_operation(composite, CALL, {"callee": callee}, operands)
    return named


def _guarded(value: Any, before: IrOperation) -> Any:
    """A value that the pass does not take for a size, behind a barrier. The pass moves integer
    constants at the start of a list of operands into the function."""
    if value.type.rank or not isinstance(value.type.element_type, ir().IntegerType):
        return value
    return inserted(before, _BARRIER, value.type, value)


def _as_composites(module: IrModule, named: Mapping[str, Mapping[str, Any]]) -> None:
    for call in find_operations(module.operation, CALL):
        operands = []
        for value in call.operands:
            guard = None if value.type.rank else made_by(value, _BARRIER)
            operands.append(value if guard is None else guard.operands[0])
        replace_operation(call, COMPOSITE, named[target(call)], operands)
    for barrier in find_operations(module.operation, _BARRIER):
        if not any(list(result.uses) for result in barrier.results):
            barrier.erase()


def _check_static(module: IrModule) -> None:
    for operation in bindings.nested_operations(module.operation):
        for result in operation.results:
            if hasattr(result.type, "shape") and not result.type.has_static_shape:
                inside = operation.name == COMPOSITE
                label = composite_name(operation) if inside else operation.name
                raise DynamicSizeError(
                    f"the type of {label}, {result.type}, does not follow from the types of the"
                    " inputs; this jaxlib cannot refine it"
                )
