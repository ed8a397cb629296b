"""reduce_booleans_as_i32: reduce booleans as the numbers 0 and 1.

    reduce(%x: tensor<4x5xi1>) applies and  =>  reduce(convert %x : tensor<4x5xi32>) applies minimum

LiteRT 2.3 has reductions of booleans only in some forms; its converter leaves any other as
STABLEHLO_REDUCE, which its runtime does not know. torch_xla 2.9 writes the result of `all` as a
selection between true and false, so a region is known by what it computes.
"""

from collections.abc import Callable, Mapping
from itertools import product
from string import Template

from ..bindings import (
    IrModule,
    IrOperation,
    IrValue,
    attributes,
    defining_operation,
    find_operations,
    splat_value,
)
from ..in_place import in_place
from ..inlining import inline_text
from ..insertion import integer_type, resized
from ..sharding_attributes import is_sharded

OPERATION = "stablehlo.reduce"
_TRUTH_TABLES: Mapping[tuple[bool, ...], tuple[str, int]] = {
    (False, False, False, True): ("minimum", 2**31 - 1),
    (False, True, True, True): ("maximum", -(2**31)),
}
"""Results for the operands 00, 01, 10 and 11: the operation of numbers, and what it starts from."""
_OPERATIONS: Mapping[str, Callable[..., bool]] = {
    "stablehlo.and": lambda a, b: a and b,
    "stablehlo.or": lambda a, b: a or b,
    "stablehlo.xor": lambda a, b: a != b,
    "stablehlo.not": lambda a: not a,
    "stablehlo.add": lambda a, b: a or b,
    "stablehlo.multiply": lambda a, b: a and b,
    "stablehlo.maximum": lambda a, b: a or b,
    "stablehlo.minimum": lambda a, b: a and b,
    "stablehlo.select": lambda a, b, c: b if a else c,
}

_NUMBERS = Template("""
func.func private @reduce(%x: $full, %init: tensor<i1>) -> $rows {
  %start = stablehlo.constant dense<$start> : tensor<i32>
  %zero = stablehlo.constant dense<0> : $counts
  %numbers = stablehlo.convert %x : ($full) -> $wide
  %found = stablehlo.reduce(%numbers init: %start) applies stablehlo.$operation
    across dimensions = [$dimensions] : ($wide, tensor<i32>) -> $counts
  %first = stablehlo.convert %init : (tensor<i1>) -> tensor<i32>
  %firsts = stablehlo.broadcast_in_dim %first, dims = [] : (tensor<i32>) -> $counts
  %all = stablehlo.$operation %found, %firsts : $counts
  %result = stablehlo.compare NE, %all, %zero : ($counts, $counts) -> $rows
  return %result : $rows
}
""")


@in_place
def reduce_booleans_as_i32(module: IrModule) -> None:
    """Change every reduction of booleans that says whether all or any are true. Reductions
    of several operands, with dynamic shapes or with shardings stay."""
    for reduction in find_operations(module.operation, OPERATION):
        text = _as_numbers(reduction)
        if text is not None:
            inline_text(reduction, text, "<reduce>")


def _as_numbers(reduction: IrOperation) -> str | None:
    full, rows = reduction.operands[0].type, reduction.results[0].type
    is_boolean = len(reduction.results) == 1 and str(full.element_type) == "i1"
    if not is_boolean or not rows.has_static_shape or is_sharded(reduction):
        return None
    row = _TRUTH_TABLES.get(truth_table(reduction) or ())
    if row is None:
        return None
    i32 = integer_type(reduction, 32)
    return _NUMBERS.substitute(
        full=full,
        rows=rows,
        wide=resized(full, element=i32),
        counts=resized(rows, element=i32),
        operation=row[0],
        start=row[1],
        dimensions=", ".join(map(str, attributes(reduction)["dimensions"])),
    )


def truth_table(reduction: IrOperation) -> tuple[bool, ...] | None:
    """The results of the region for all pairs of booleans; None if it has an unknown operation."""
    block = reduction.regions[0].blocks[0]
    *operations, terminator = (operation.operation for operation in block.operations)
    results: list[bool] = []
    for pair in product((False, True), repeat=2):
        known = dict(zip(block.arguments, pair, strict=True))
        for operation in operations:
            values = [_value(operand, known) for operand in operation.operands]
            compute = _OPERATIONS.get(operation.name)
            if compute is None or None in values or len(operation.results) != 1:
                return None
            known[operation.results[0]] = compute(*values)
        (result,) = (_value(operand, known) for operand in terminator.operands)
        if result is None:
            return None
        results.append(result)
    return tuple(results)


def _value(value: IrValue, known: Mapping[IrValue, bool]) -> bool | None:
    if value in known:
        return known[value]
    owner = defining_operation(value)
    if owner is None or owner.name != "stablehlo.constant":
        return None
    splat = splat_value(owner)
    return None if splat is None else bool(splat)
