"""legalize_signs: write absolute values and signs of i64 as maxima and minima.

    abs %x   =>  maximum(%x, negate %x)
    sign %x  =>  maximum(minimum(%x, 1), -1)

LiteRT 2.3 has neither of them for i64. They are in relative positions, as those of T5 and DeBERTa.
"""

from collections.abc import Callable
from typing import Any

from composites.lazy_modules import lax, np

from ..ir_types import IrOperation
from .expansion import expands


@expands("stablehlo.abs", "stablehlo.sign")
def legalize_signs(operation: IrOperation) -> Callable[..., Any] | None:
    """Change every absolute value and sign of i64. Those with dynamic shapes or shardings stay."""
    if str(operation.operands[0].type.element_type) != "i64":
        return None
    if operation.name == "stablehlo.abs":
        return lambda x: lax.max(x, lax.neg(x))
    return lambda x: lax.max(lax.min(x, np.int64(1)), np.int64(-1))
