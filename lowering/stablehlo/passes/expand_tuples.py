"""expand_tuples: give composites and custom calls several results instead of one tuple.

An HLO function returns one value. torch_xla therefore prints a composite with several results as

    %0 = stablehlo.composite "acme.topk" %x {decomposition = @acme.topk.impl}
           : (tensor<4x6xf32>) -> tuple<tensor<4x2xf32>, tensor<4x2xi64>>
    %1 = stablehlo.get_tuple_element %0[1]

which no consumer supports. It becomes `%0:2 = stablehlo.composite "acme.topk" %x {…}`. Custom calls
come from HLO in the same form, with attributes that StableHLO cannot write to a portable artifact.
"""

from ..bindings import attributes, building, find_operations, ir, made_by
from ..in_place import in_place
from ..insertion import created, inserted, replace_by
from ..ir_types import IrModule, IrOperation
from ..symbols import CUSTOM_CALL, body, callees_first, functions, update_type, uses

_GET = "stablehlo.get_tuple_element"
_TUPLE = "stablehlo.tuple"
_NOTES = ("result_tilings", "xla_shape")
"""Attributes of a tuple of results, which describe the layout of the tuple in HLO."""


@in_place
def expand_tuples(module: IrModule) -> None:
    """Replace the tuple of every composite, of its decomposition, and of every custom call by
    several results.

    Tuples that are packed and unpacked again in one function are removed too.

    This runs after `flatten_calls`. Tuples that pass through plain calls do not change.
    """
    by_name = functions(module)
    composites = uses(module.operation).composites
    # Inner decompositions come first: an outer decomposition may return a composite's tuple.
    for name in callees_first(module):
        if name in composites and _expand_function(by_name[name]):
            for composite in composites[name]:
                _expand_call(composite)
    for call in find_operations(module.operation, CUSTOM_CALL):
        if len(call.results) == 1 and str(call.results[0].type).startswith("tuple<"):
            _expand_call(call)
    _unpack(module)


def _unpack(module: IrModule) -> None:
    """Replace reads of packed tuples by the packed elements."""
    for getter in find_operations(module.operation, _GET):
        packed = made_by(getter.operands[0], _TUPLE)
        if packed is not None:
            replace_by(getter, packed.operands[attributes(getter)["index"].value])
    for packed in find_operations(module.operation, _TUPLE):
        if not list(packed.results[0].uses):
            packed.erase()


def _expand_function(function: IrOperation) -> bool:
    """Make a function return the elements of its tuple. Return whether it returned a tuple."""
    block = body(function)
    if block is None:
        return False
    *_, terminator = (operation.operation for operation in block.operations)
    if len(terminator.operands) != 1:
        return False
    packed = made_by(terminator.operands[0], _TUPLE)
    if packed is None:
        return False
    parts = list(packed.operands)
    with building(function.context):
        ir().Operation.create(terminator.name, operands=parts, ip=ir().InsertionPoint(terminator))
    terminator.erase()
    update_type(function)
    return True


def _expand_call(call: IrOperation) -> None:
    """Make a call return the elements of its tuple, and pack them again after the call."""
    packed = call.results[0]
    with building(call.context):
        tuple_ = ir().TupleType(packed.type)
        types = [tuple_.get_type(number) for number in range(tuple_.num_types)]
    remaining = {k: v for k, v in attributes(call).items() if k not in _NOTES}
    expanded = created(call, call.name, types, call.operands, remaining)
    again = inserted(call, _TUPLE, packed.type, *expanded.results)
    packed.replace_all_uses_with(again)
    call.erase()
