"""expand_tuples: composites of several results in place of composites of one tuple.

HLO functions return one value, so torch_xla prints a composite of several results as

    %0 = stablehlo.composite "acme.topk" %x {decomposition = @acme.topk.impl}
           : (tensor<4x6xf32>) -> tuple<tensor<4x2xf32>, tensor<4x2xi64>>
    %1 = stablehlo.get_tuple_element %0[1]

and no consumer reads it so. It becomes `%0:2 = stablehlo.composite "acme.topk" %x {…}`.
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
    """Give every composite of one tuple, and its decomposition, several results instead.

    Tuples that are packed and unpacked again in one function go too.

    Runs after `flatten_calls`: tuples that go through plain calls are left as they are.
    """
    by_name = functions(module)
    composites = uses(module.operation).composites
    # Inner ones first: a decomposition may return the tuple of a composite as it is.
    for name in callees_first(module):
        if name in composites and _expand_function(by_name[name]):
            for composite in composites[name]:
                _expand_composite(composite)
    _unpack(module)


def _unpack(module: IrModule) -> None:
    """Take the parts of tuples from where they were packed."""
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
    """Return the parts of a returned tuple; says whether there was one."""
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
