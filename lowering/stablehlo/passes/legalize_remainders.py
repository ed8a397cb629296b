"""legalize_remainders: compute remainders of non-positive numbers.

    remainder(%x, %y)  =>  select(%x LT 0, %r, negate %r),
                           with %r = remainder(minimum(%x, negate %x), minimum(%y, negate %y))

LiteRT 2.3 computes a remainder with the sign of the divisor, without an error, and has no `abs` of
i64. A non-negative integer always has a negation; the smallest integer has none. An integer
dividend is replaced by 0 where the divisor is -1, since processors trap when they divide the
smallest integer by -1. The result has the same bits, except for the sign of zero where `x` is
-0.0.
"""

from collections.abc import Callable
from typing import Any

from composites.lazy_modules import lax, np

from ..bindings import made_by
from ..ir_types import IrOperation, IrValue
from .expansion import expands


@expands("stablehlo.remainder")
def legalize_remainders(remainder: IrOperation) -> Callable[..., Any] | None:
    """Change every remainder of numbers that may be positive. Remainders with dynamic shapes or
    shardings stay."""
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
