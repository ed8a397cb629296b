"""Arithmetic that LiteRT lacks or computes differently, as operations that it has."""

from collections.abc import Callable
from typing import Any

from composites.lazy_modules import lax, np

from ..bindings import made_by
from ..ir_types import IrOperation, IrValue
from .expansion import expands


@expands("stablehlo.divide")
def legalize_divisions(division: IrOperation) -> Callable[..., Any] | None:
    """Divide integers, except for i32 and ui64, without the divisions that LiteRT lacks.

        divide %x, %y of i64   =>  q, with rest = %x - remainder(%x, %y), and three times:
                                   p = convert(round(f32(rest) / f32(%y))), q += p, rest -= p * %y
        divide %x, %y of ui32  =>  the same in i64
        divide %x, %y of i8    =>  a division of i32; also for ui8, i16 and ui16

    LiteRT 2.3 divides only i32 integers. Mixture-of-experts models divide the numbers of their
    tokens' choices. The quotient of i64 is exact: `rest` is a multiple of the divisor, and each
    step leaves less than a millionth of `rest`, so that the third step rounds an exact f32 number
    to the nearest integer. If a step leaves the range of i64, its product with the divisor does so
    too.

    Divisions with dynamic shapes or shardings stay.
    """
    element = str(division.results[0].type.element_type)
    if element in ("i8", "ui8", "i16", "ui16"):
        return lambda x, y: lax.div(x.astype("int32"), y.astype("int32")).astype(x.dtype)
    if element in ("i64", "ui32"):
        return lambda x, y: _quotient(x.astype("int64"), y.astype("int64")).astype(x.dtype)
    return None


def _quotient(x: Any, y: Any) -> Any:
    quotient, rest = 0, x - lax.rem(x, y)
    for _ in range(3):
        ratio = rest.astype("float32") / y.astype("float32")
        part = lax.round(ratio, lax.RoundingMethod.TO_NEAREST_EVEN).astype("int64")
        quotient, rest = quotient + part, rest - part * y
    return quotient


@expands("stablehlo.remainder")
def legalize_remainders(remainder: IrOperation) -> Callable[..., Any] | None:
    """Compute remainders of numbers that may be positive from remainders of non-positive numbers.

        remainder(%x, %y)  =>  select(%x LT 0, %r, negate %r),
                               with %r = remainder(minimum(%x, negate %x), minimum(%y, negate %y))

    LiteRT 2.3 computes a remainder with the sign of the divisor, without an error, and has no `abs`
    of i64. A non-negative integer always has a negation; the smallest integer has none. An integer
    dividend is replaced by 0 where the divisor is -1, since processors trap when they divide the
    smallest integer by -1. The result has the same bits, except for the sign of zero where `x` is
    -0.0.

    Remainders with dynamic shapes or shardings stay.
    """
    is_unsigned = str(remainder.results[0].type.element_type).startswith("ui")
    return None if is_unsigned or all(map(_is_non_positive, remainder.operands)) else _legal


def _legal(x: Any, y: Any) -> Any:
    dividend, divisor = lax.min(x, lax.neg(x)), lax.min(y, lax.neg(y))
    if np.issubdtype(x.dtype, np.integer):
        dividend = lax.select(divisor == -1, lax.full_like(x, 0), dividend)
    result = lax.rem(dividend, divisor)
    return lax.select(x < 0, result, lax.neg(result))


def _is_non_positive(value: IrValue) -> bool:
    """Return whether a value is `min(x, -x)` of a number, or a selection of it."""
    select = made_by(value, "stablehlo.select")
    least = made_by(value if select is None else select.operands[2], "stablehlo.minimum")
    if least is None:
        return False
    number, negated = least.operands
    negation = made_by(negated, "stablehlo.negate")
    return negation is not None and negation.operands[0] == number


@expands("stablehlo.round_nearest_afz")
def legalize_rounds(operation: IrOperation) -> Callable[..., Any] | None:
    """Round halves away from zero by rounding down, except in f64.

        round_nearest_afz %x  =>  sign(%x) * (%down + (|%x| - %down >= 0.5)),
                                      with %down = floor(|%x|)

    LiteRT 2.3 has no such operation. JAX's `//` of floats uses it. Differences are exact, so that
    the result has the same bits, except for the sign of zero where `x` is -0.0.

    Operations with dynamic shapes or shardings stay.
    """
    return None if str(operation.results[0].type.element_type) == "f64" else _rounded


def _rounded(number: Any) -> Any:
    x = number.astype("float32")
    size = lax.abs(x)
    down = lax.floor(size)
    up = (size - down >= 0.5).astype("float32")
    return (lax.sign(x) * (down + up)).astype(number.dtype)


@expands("stablehlo.abs", "stablehlo.sign")
def legalize_signs(operation: IrOperation) -> Callable[..., Any] | None:
    """Write absolute values and signs of i64 as maxima and minima.

        abs %x   =>  maximum(%x, negate %x)
        sign %x  =>  maximum(minimum(%x, 1), -1)

    LiteRT 2.3 has neither operation for i64. T5 and DeBERTa compute relative positions with them.

    Operations with dynamic shapes or shardings stay.
    """
    if str(operation.operands[0].type.element_type) != "i64":
        return None
    if operation.name == "stablehlo.abs":
        return lambda x: lax.max(x, lax.neg(x))
    return lambda x: lax.max(lax.min(x, np.int64(1)), np.int64(-1))
