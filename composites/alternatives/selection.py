"""The few largest of few elements, as routers of experts choose for each token.

An element and its index become one integer, so that one maximum gives both, and no two integers are
equal. The next largest is the maximum of the integers below. For few elements this is faster than
sorting.
"""

import jax.numpy as jnp
from jax import Array, lax

INTEGERS = {2: jnp.int16, 4: jnp.int32}
"""The integer type of the same width as an element, by number of bytes."""


def top_k(
    self: Array, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Array, Array]:
    """`aten::topk` of the last dimension, in the total order of floats, as in the stock lowering:
    NaN is the largest, and NaN with its sign bit set is the smallest."""
    count = self.shape[-1]
    indices = lax.broadcasted_iota(jnp.int64, self.shape, self.ndim - 1)
    ordered = _in_order(lax.bitcast_convert_type(self, INTEGERS[self.dtype.itemsize]))
    keys = (ordered if largest else ~ordered).astype(jnp.int64) * 2**32 + (count - 1 - indices)
    extremes = [keys.max(-1, keepdims=True)]
    while len(extremes) < k:
        below = jnp.where(keys < extremes[-1], keys, jnp.iinfo(jnp.int64).min)
        extremes.append(below.max(-1, keepdims=True))
    chosen = jnp.concatenate(extremes, -1)
    ordered = (chosen >> 32).astype(ordered.dtype)
    values = lax.bitcast_convert_type(_in_order(ordered if largest else ~ordered), self.dtype)
    return values, count - 1 - (chosen & 0xFFFFFFFF)


def _in_order(bits: Array) -> Array:
    """Convert the bits of floats to integers of the same order, or back."""
    return jnp.where(bits < 0, bits ^ jnp.iinfo(bits.dtype).max, bits)
