"""Decompositions of litert_quant.yaml: what PyTorch's operators compute, with lists of scales.

A list has one number for the tensor, or one for each slice of a dimension.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np
from jax import numpy as jnp
from litert_quant_ops import LIMITS

STORED = {"i8": jnp.int8, "i16": jnp.int16}


def fake_quant(
    input: jax.Array,
    *,
    scale: Sequence[float],
    zero_point: Sequence[int],
    dtype: str,
    narrow_range: bool,
) -> jax.Array:
    """The integers that a tensor is rounded to, times the scale."""
    integers = _integers(input, scale[0], zero_point[0], dtype, narrow_range)
    return (integers - zero_point[0]) * np.float32(scale[0])


def quantize(
    input: jax.Array,
    *,
    scale: Sequence[float],
    zero_point: Sequence[int],
    dtype: str,
    narrow_range: bool,
) -> jax.Array:
    """The integers `round(input / scale) + zero_point`, clamped."""
    integers = _integers(input, scale[0], zero_point[0], dtype, narrow_range)
    return integers.astype(STORED[dtype])


def dequantize(
    input: jax.Array,
    *,
    scale: Sequence[float],
    zero_point: Sequence[int],
    dtype: str,
    narrow_range: bool,
) -> jax.Array:
    """`(input - zero_point) * scale` in f32."""
    return (input.astype(jnp.float32) - zero_point[0]) * np.float32(scale[0])


def fake_quant_channels(
    x: jax.Array, scales: Sequence[float], axis: int, dtype: str = "i8"
) -> jax.Array:
    """Fake quantization with a scale for each slice, and as many negative integers as positive."""
    factors = _of_slices(x, scales, axis)
    return _integers(x, factors, 0, dtype, narrow_range=True) * factors


def dequantize_channels(x: jax.Array, scales: Sequence[float], axis: int) -> jax.Array:
    """Integers times the scale of their slice."""
    return x.astype(jnp.float32) * _of_slices(x, scales, axis)


def _integers(
    input: jax.Array, scale: float | np.ndarray, zero_point: int, dtype: str, narrow_range: bool
) -> jax.Array:
    lowest, highest = LIMITS[dtype]
    rounded = jnp.round(input * np.float32(1.0 / scale)) + zero_point
    return jnp.clip(rounded, lowest + narrow_range, highest)


def _of_slices(x: jax.Array, scales: Sequence[float], axis: int) -> np.ndarray:
    return np.float32(scales).reshape([-1 if n == axis else 1 for n in range(x.ndim)])
