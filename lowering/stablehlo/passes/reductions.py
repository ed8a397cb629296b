"""Reductions in the forms that LiteRT and IREE have."""

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

from composites.lazy_modules import lax, np

from ..bindings import attributes, splat_number
from ..combinations import IN_JAX, combination, neutral_element, only_operation
from ..data_movement import CONVERT, retype
from ..in_place import rewrites
from ..insertion import behind, converted, integer_type
from ..ir_types import IrOperation, IrValue
from .expansion import expands

OPERATION = "stablehlo.reduce"


@expands(OPERATION)
def legalize_reduce_inits(reduction: IrOperation) -> Callable[..., Any] | None:
    """Let every maximum and minimum start from the neutral element.

        reduce(x init: -3.4e38) applies maximum  =>  maximum(reduce(x init: -inf), -3.4e38)

    torch_xla 2.9 starts `amax` and `amin` from the last finite number. LiteRT 2.3 has such a
    reduction only if it starts from infinity, or from the last integer; its converter turns any
    other reduction into STABLEHLO_REDUCE, which its runtime does not have. Both forms have the same
    bits, also for rows of infinities and of NaN.

    Reductions of booleans, from NaN, with a dynamic shape or with a sharding stay.
    """
    name = combination(reduction.regions[0])
    element = str(reduction.operands[0].type.element_type)
    if name not in ("maximum", "minimum") or element == "i1":
        return None
    neutral = neutral_element(name, element)
    if neutral is None or _starts_from(reduction, neutral):
        return None
    dimensions = [*attributes(reduction)["dimensions"]]

    def legal(x: Any, last: Any) -> Any:
        combine = getattr(lax, IN_JAX[name])
        result = lax.reduce(x, neutral, combine, dimensions)
        return combine(result, lax.broadcast(last, result.shape))

    return legal


def _starts_from(reduction: IrOperation, neutral: Any) -> bool:
    """Return whether a reduction starts from a constant with the bits of a number, or from NaN."""
    start = splat_number(reduction.operands[1])
    if start is None:
        return False
    bits = np.full((), start, neutral.dtype).tobytes()
    return bool(start != start) or bits == neutral.tobytes()


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


@expands(OPERATION)
def reduce_booleans_as_i32(reduction: IrOperation) -> Callable[..., Any] | None:
    """Compute `all` and `any` of booleans by reductions of the numbers 0 and 1.

        reduce(%x: tensor<4x5xi1>) applies and
        =>
        reduce(convert %x : tensor<4x5xi32>) applies minimum

    LiteRT 2.3 has reductions of booleans only in some forms; its converter turns any other
    reduction into STABLEHLO_REDUCE, which its runtime does not have. torch_xla 2.9 writes the
    result of `all` as a selection between true and false, so a region is recognized by its results.

    Reductions of several operands, with dynamic shapes or with shardings stay.
    """
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


_BYTES = ("ui8", "i8")


@rewrites(OPERATION, "stablehlo.reduce_window")
def widen_byte_sums(reduction: IrOperation) -> None:
    """Add up ui8 and i8 as i32.

        reduce_window(%x: tensor<2x16xui8>) applies add
        =>
        convert(reduce_window(convert %x : tensor<2x16xi32>) applies add)

    Such operations are sums of booleans and of small integers in their own type, such as `cumsum`
    of a mask. LiteRT 2.3 and IREE 3.13 refuse sums of ui8. The result has the same bits: both wrap
    around.

    Sums of several operands, or with shardings, stay.
    """
    element = str(reduction.results[0].type.element_type)
    add = only_operation(reduction.regions[0])
    if element not in _BYTES or add is None or add.name != "stablehlo.add":
        return
    wide, result = integer_type(reduction, 32), reduction.results[0]
    for index, operand in enumerate(reduction.operands):
        reduction.operands[index] = converted(reduction, operand, wide)
    behind(result, CONVERT, result.type)
    for value in (result, *reduction.regions[0].blocks[0].arguments, add.results[0]):
        retype(value, wide)
