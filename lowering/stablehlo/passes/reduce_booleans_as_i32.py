"""reduce_booleans_as_i32: reduce booleans as the numbers 0 and 1.

    reduce(%x: tensor<4x5xi1>) applies and  =>  reduce(convert %x : tensor<4x5xi32>) applies minimum

LiteRT 2.3 has reductions of booleans only in some forms; its converter turns any other reduction
into STABLEHLO_REDUCE, which its runtime does not have. torch_xla 2.9 writes the result of `all` as
a selection between true and false, so a region is recognized by its results.
"""

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

from composites.lazy_modules import lax, np

from ..bindings import attributes, splat_number
from ..ir_types import IrOperation, IrValue
from .expansion import expands

_TRUTH_TABLES: Mapping[tuple[bool, ...], tuple[str, int]] = {
    (False, False, False, True): ("min", 2**31 - 1),
    (False, True, True, True): ("max", -(2**31)),
}
"""JAX's name of the operation on numbers, and its start, by the results for the operands 00, 01, 10
and 11."""
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


@expands("stablehlo.reduce")
def reduce_booleans_as_i32(reduction: IrOperation) -> Callable[..., Any] | None:
    """Change every reduction of booleans that computes `all` or `any`. Reductions of several
    operands, with dynamic shapes or with shardings stay."""
    element = str(reduction.operands[0].type.element_type)
    is_boolean = len(reduction.results) == 1 and element == "i1"
    row = _TRUTH_TABLES.get(truth_table(reduction) or ()) if is_boolean else None
    if row is None:
        return None
    name, start = row
    dimensions = [*attributes(reduction)["dimensions"]]

    def as_numbers(x: Any, init: Any) -> Any:
        combine = getattr(lax, name)
        result = lax.reduce(x.astype(np.int32), np.int32(start), combine, dimensions)
        return combine(result, lax.broadcast(init.astype(np.int32), result.shape)) != 0

    return as_numbers


def truth_table(reduction: IrOperation) -> tuple[bool, ...] | None:
    """The results of the region for all pairs of booleans; None for unknown operations."""
    block = reduction.regions[0].blocks[0]
    *operations, terminator = (operation.operation for operation in block.operations)
    results: list[bool] = []
    for pair in product((False, True), repeat=2):
        computed = dict(zip(block.arguments, pair, strict=True))
        for operation in operations:
            values = [_value(operand, computed) for operand in operation.operands]
            compute = _OPERATIONS.get(operation.name)
            if compute is None or None in values or len(operation.results) != 1:
                return None
            computed[operation.results[0]] = compute(*values)
        (result,) = (_value(operand, computed) for operand in terminator.operands)
        if result is None:
            return None
        results.append(result)
    return tuple(results)


def _value(value: IrValue, computed: Mapping[IrValue, bool]) -> bool | None:
    if value in computed:
        return computed[value]
    number = splat_number(value)
    return None if number is None else bool(number)
