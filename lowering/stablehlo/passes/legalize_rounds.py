"""legalize_rounds: round halves away from zero by rounding down.

    round_nearest_afz %x  =>  sign(%x) * (%down + (|%x| - %down >= 0.5)),
                                  with %down = floor(|%x|)

LiteRT 2.3 has no such operation. JAX's `//` of floats uses it. Differences are exact, so that the
result has the same bits, except for the sign of zero where `x` is -0.0.
"""

from collections.abc import Callable
from typing import Any

from composites.lazy_modules import lax

from ..ir_types import IrOperation
from .expansion import expands


@expands("stablehlo.round_nearest_afz")
def legalize_rounds(operation: IrOperation) -> Callable[..., Any] | None:
    """Change operations except of f64. Operations with dynamic shapes or shardings stay."""
    return None if str(operation.results[0].type.element_type) == "f64" else _rounded


def _rounded(number: Any) -> Any:
    x = number.astype("float32")
    size = lax.abs(x)
    down = lax.floor(size)
    up = (size - down >= 0.5).astype("float32")
    return (lax.sign(x) * (down + up)).astype(number.dtype)
