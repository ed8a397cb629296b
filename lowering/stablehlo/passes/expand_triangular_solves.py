"""expand_triangular_solves: solve triangular systems by products with the inverse.

    triangular_solve(%a, %b) {left_side, lower}  =>  inverse(%a) %b

IREE 3.13 and LiteRT 2.3 have no such operation, which the delta rules of language models need. The
inverse is assembled from the inverses of the two diagonal blocks `A` and `C`, as [[A, 0], [B, C]]
has the inverse [[A', 0], [-C' B A', C']], beginning with blocks of one element. All blocks of one
size are computed by one product (Higham, "Accuracy and Stability of Numerical Algorithms", 2002,
section 14.2, has the bounds of its error).
"""

from collections.abc import Callable
from typing import Any

from ..attributes import to_python
from ..bindings import attributes
from ..ir_types import IrOperation
from .expansion import expands

_GREATEST = 512
"""The size up to which systems are expanded: the blocks of a matrix need as many slices."""


@expands("stablehlo.triangular_solve")
def expand_triangular_solves(solve: IrOperation) -> Callable[..., Any] | None:
    """Expand systems of real numbers of up to 512 equations. Other systems stay, and so do systems
    with dynamic shapes or shardings."""
    kind = solve.operands[0].type
    if 0 in kind.shape or kind.shape[-1] > _GREATEST or "complex" in str(kind.element_type):
        return None
    options = attributes(solve)
    left, lower, unit = (to_python(options[n]) for n in ("left_side", "lower", "unit_diagonal"))
    transposes = "NO_TRANSPOSE" not in str(options["transpose_a"])

    def solved(a: Any, b: Any) -> Any:
        import jax.numpy as jnp

        if not lower:
            a = jnp.swapaxes(a, -1, -2)
        matrices = a.reshape(-1, *a.shape[-2:])
        inverse = _inverse(matrices, is_unit=unit).reshape(a.shape)
        if lower == transposes:
            inverse = jnp.swapaxes(inverse, -1, -2)
        factors = (inverse, b) if left else (b, inverse)
        return jnp.matmul(*factors, precision="highest")

    return solved


def _inverse(lower: Any, *, is_unit: bool) -> Any:
    """The inverses of lower triangular matrices `[N, K, K]`. Elements above the diagonal are not
    read, and neither is a diagonal of ones."""
    import jax.numpy as jnp

    count, size = lower.shape[:2]
    rounded = 1 << (size - 1).bit_length()
    if is_unit:
        blocks = jnp.ones((count, rounded, 1, 1), lower.dtype)
    else:
        diagonal = jnp.stack([lower[:, n, n] for n in range(size)], 1)
        diagonal = jnp.pad(diagonal, ((0, 0), (0, rounded - size)), constant_values=1)
        blocks = (1 / diagonal)[..., None, None]
    padded = jnp.pad(lower, ((0, 0), (0, rounded - size), (0, rounded - size)))
    width = 1
    while width < rounded:
        starts = range(0, rounded, 2 * width)
        below = [padded[:, n + width : n + 2 * width, n : n + width] for n in starts]
        pairs = blocks.reshape(count, len(starts), 2, width, width)
        first, second = pairs[:, :, 0], pairs[:, :, 1]
        products = jnp.matmul(second, jnp.stack(below, 1), precision="highest")
        corner = -jnp.matmul(products, first, precision="highest")
        above = jnp.concatenate([first, jnp.zeros_like(first)], -1)
        blocks = jnp.concatenate([above, jnp.concatenate([corner, second], -1)], -2)
        width *= 2
    return blocks[:, 0, :size, :size]
