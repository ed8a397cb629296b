"""expand_tuples: give composites several results instead of one tuple.

An HLO function returns one value. torch_xla therefore prints a composite with several results as

    %0 = stablehlo.composite "acme.topk" %x {decomposition = @acme.topk.impl}
           : (tensor<4x6xf32>) -> tuple<tensor<4x2xf32>, tensor<4x2xi64>>
    %1 = stablehlo.get_tuple_element %0[1]

which no consumer supports. It becomes `%0:2 = stablehlo.composite "acme.topk" %x {…}`.
"""

from ..bindings import (
    IrModule,
    IrOperation,
    IrValue,
    attributes,
    building,
    defining_operation,
    find_operations,
    ir,
)
from ..in_place import in_place
from ..symbols import body, callees_first, functions, uses

_GET = "stablehlo.get_tuple_element"
_TUPLE = "stablehlo.tuple"


@in_place
def expand_tuples(module: IrModule) -> None:
    """Replace the tuple of every composite, and of its decomposition, by several results.

    Tuples that are packed and unpacked again in one function are removed too.

    This runs after `flatten_calls`. Tuples that pass through plain calls do not change.
    """
    by_name = functions(module)
    composites = uses(module.operation).composites
    # Inner decompositions come first, because an outer one may return the tuple of a composite.
    for name in callees_first(module):
        if name in composites and _expand_function(by_name[name]):
            for composite in composites[name]:
                _expand_composite(composite)
    _unpack(module)


def _unpack(module: IrModule) -> None:
    """Take the elements of tuples from where they were packed."""
    for getter in find_operations(module.operation, _GET):
        packed = defining_operation(getter.operands[0])
        if packed is not None and packed.name == _TUPLE:
            part = packed.operands[attributes(getter)["index"].value]
            getter.results[0].replace_all_uses_with(part)
            getter.erase()
    for packed in find_operations(module.operation, _TUPLE):
        if not list(packed.results[0].uses):
            packed.erase()


def _expand_function(function: IrOperation) -> bool:
    """Return the elements of a returned tuple instead. Says whether there was a tuple."""
    block = body(function)
    if block is None:
        return False
    *_, terminator = (operation.operation for operation in block.operations)
    if len(terminator.operands) != 1:
        return False
    packed = defining_operation(terminator.operands[0])
    if packed is None or packed.name != _TUPLE:
        return False
    parts = list(packed.operands)
    with building(function.context):
        inputs = [argument.type for argument in block.arguments]
        type_ = ir().FunctionType.get(inputs, [part.type for part in parts])
        function.attributes["function_type"] = ir().TypeAttr.get(type_)
        ir().Operation.create(terminator.name, operands=parts, ip=ir().InsertionPoint(terminator))
    terminator.erase()
    return True


def _expand_composite(composite: IrOperation) -> None:
    packed = composite.results[0]
    getters = [use.owner.operation for use in packed.uses]
    with building(composite.context):
        types = [ir().TupleType(packed.type).get_type(i) for i in range(_size(packed))]
        kept = {k: v for k, v in attributes(composite).items() if k != "xla_shape"}
        at = ir().InsertionPoint(composite)
        expanded = ir().Operation.create(
            composite.name,
            results=types,
            operands=list(composite.operands),
            attributes=kept,
            ip=at,
        )
        if any(getter.name != _GET for getter in getters):  # returned whole, or packed again
            again = ir().Operation.create(
                _TUPLE, results=[packed.type], operands=list(expanded.results), ip=at
            )
            packed.replace_all_uses_with(again.results[0])
        else:
            for getter in getters:
                index = attributes(getter)["index"].value
                getter.results[0].replace_all_uses_with(expanded.results[index])
                getter.erase()
    composite.erase()


def _size(value: IrValue) -> int:
    return int(ir().TupleType(value.type).num_types)
