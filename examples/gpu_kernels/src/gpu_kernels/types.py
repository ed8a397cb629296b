"""Types of the kernels' operands and results."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from composites import UnsupportedCallError

FLOATS = (jnp.dtype(jnp.float32), jnp.dtype(jnp.bfloat16), jnp.dtype(jnp.float16))


def same(x: Array, shape: tuple[int, ...] | None = None) -> jax.ShapeDtypeStruct:
    """The type of `x`, or a type of its elements with another shape."""
    return jax.ShapeDtypeStruct(x.shape if shape is None else shape, x.dtype)


def check_floats(*operands: Array, types: tuple[jnp.dtype, ...] = FLOATS) -> None:
    """
    Raises:
        UnsupportedCallError: they are not all of one of these types, or have no elements.
    """
    dtypes = {operand.dtype for operand in operands}
    if len(dtypes) > 1 or not dtypes <= set(types):
        got = ", ".join(sorted(map(str, dtypes)))
        expected = " or of ".join(map(str, types))
        raise UnsupportedCallError(f"takes operands that are all of {expected}, not {got}")
    if any(operand.size == 0 for operand in operands):
        raise UnsupportedCallError("takes at least one element")


def check_attention(
    query: Array,
    key: Array,
    value: Array,
    dropout_p: float,
    enable_gqa: bool,
    types: tuple[jnp.dtype, ...],
) -> None:
    """
    Raises:
        UnsupportedCallError: for dropout, and operands of other types or shapes.
    """
    check_floats(query, key, value, types=types)
    if dropout_p != 0:
        raise UnsupportedCallError("takes no dropout, whose random numbers are XLA's")
    if query.ndim < 3 or query.shape[:-3] != key.shape[:-3] or key.shape != value.shape:
        raise UnsupportedCallError("takes key and value of one shape, with the batch of query")
    heads, of_key = query.shape[-3], key.shape[-3]
    if heads % of_key or not (enable_gqa or heads == of_key) or query.shape[-1] != key.shape[-1]:
        raise UnsupportedCallError("takes heads of which those of key are a divisor")
