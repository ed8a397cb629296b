"""legalize_signs: write absolute values and signs of i64 as maxima and minima.

    abs %x   =>  maximum(%x, negate %x)
    sign %x  =>  maximum(minimum(%x, 1), -1)

LiteRT 2.3 has neither operation for i64. T5 and DeBERTa compute relative positions with them.
"""

from collections.abc import Callable
from typing import Any

from composites.lazy_modules import lax, np

from ..ir_types import IrOperation
from .expansion import expands


@expands("stablehlo.abs", "stablehlo.sign")
def legalize_signs(operation: IrOperation) -> Callable[..., Any] | None:
    """Change every `abs` and `sign` of i64. Operations with dynamic shapes or shardings stay."""
    if str(operation.operands[0].type.element_type) != "i64":
        return None
    if operation.name == "stablehlo.abs":
        return lambda x: lax.max(x, lax.neg(x))
    return lambda x: lax.max(lax.min(x, np.int64(1)), np.int64(-1))
