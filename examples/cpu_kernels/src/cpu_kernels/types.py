"""Types of the kernels' operands and results."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import Array

from composites import UnsupportedCallError

FLOATS = (jnp.dtype(jnp.float32), jnp.dtype(jnp.bfloat16), jnp.dtype(jnp.float16))


def same(x: Array, shape: tuple[int, ...] | None = None) -> jax.ShapeDtypeStruct:
    """The type of `x`, or a type of its elements with another shape."""
    return jax.ShapeDtypeStruct(x.shape if shape is None else shape, x.dtype)


def check_floats(*operands: Array) -> None:
    """
    Raises:
        UnsupportedCallError: they are not all f32, all bf16 or all f16.
    """
    types = {operand.dtype for operand in operands}
    if len(types) > 1 or not types <= set(FLOATS):
        names = ", ".join(sorted(str(dtype) for dtype in types))
        raise UnsupportedCallError(f"takes operands of f32, of bf16 or of f16, not {names}")


def check_shape(name: str, x: Array, shape: Sequence[int]) -> None:
    """The kernels count in one operand what they read of another, and would read past its end.

    Raises:
        UnsupportedCallError: `x` has another shape.
    """
    if x.shape != tuple(shape):
        raise UnsupportedCallError(f"takes {name} of shape {tuple(shape)}, not {x.shape}")
