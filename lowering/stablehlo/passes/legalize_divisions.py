"""legalize_divisions: divide integers without the divisions that LiteRT lacks.

    divide %x, %y of i64   =>  q, with rest = %x - remainder(%x, %y), and three times:
                               p = convert(round(f32(rest) / f32(%y))), q += p, rest -= p * %y
    divide %x, %y of ui32  =>  the same in i64
    divide %x, %y of i8    =>  a division of i32; also for ui8, i16 and ui16

LiteRT 2.3 divides only i32 integers. Mixture-of-experts models divide the numbers of their tokens'
choices. The quotient of i64 is exact: `rest` is a multiple of the divisor, and each step leaves
less than a millionth of `rest`, so that the third step rounds an exact f32 number to the nearest
integer. If a step leaves the range of i64, its product with the divisor does so too.
"""

from collections.abc import Callable
from typing import Any

from composites.lazy_modules import lax

from ..ir_types import IrOperation
from .expansion import expands


@expands("stablehlo.divide")
def legalize_divisions(division: IrOperation) -> Callable[..., Any] | None:
    """Change every division of integers, except for i32 and ui64. Divisions with dynamic shapes or
    shardings stay."""
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
