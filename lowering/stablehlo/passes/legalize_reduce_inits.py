"""legalize_reduce_inits: let maxima and minima start from infinity.

    reduce(x init: -3.4e38) applies maximum  =>  maximum(reduce(x init: -inf), -3.4e38)

torch_xla 2.9 starts `amax` and `amin` from the last finite number. LiteRT 2.3 has such a reduction
only if it starts from infinity, or from the last integer; its converter turns any other reduction
into STABLEHLO_REDUCE, which its runtime does not have. Both forms have the same bits, also for rows
of infinities and of NaN.
"""

from collections.abc import Callable
from typing import Any

from composites.lazy_modules import lax, np

from ..bindings import attributes, splat_number
from ..combinations import IN_JAX, combination, neutral_element
from ..ir_types import IrOperation
from .expansion import expands

OPERATION = "stablehlo.reduce"


@expands(OPERATION)
def legalize_reduce_inits(reduction: IrOperation) -> Callable[..., Any] | None:
    """Change every maximum and minimum that starts from another number than the neutral element.
    Reductions of booleans, from NaN, with a dynamic shape or with a sharding stay."""
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
