"""Dropout and its gradient, with the random numbers of the decomposition."""

from __future__ import annotations

import jax
import numpy as np
from jax import Array

from composites import UnsupportedCallError
from cpu_kernels.library import register
from cpu_kernels.types import same


def dropout(x: Array, *seed: Array, p: float) -> Array:
    """`ptxla.dropout`.

    Args:
        x: of any shape, f32.
        seed: `[]`, i64: the state of the generator. A call that drops all numbers has none.
        p: the probability of zero, less than 1.

    Returns:
        As `x`, with the bits of the decomposition.

    Raises:
        UnsupportedCallError: for other types than f32, and where all numbers are dropped.
    """
    kept = kept_by(p)
    if x.dtype != np.float32 or [each.dtype for each in seed] != [np.int64] or x.size == 0:
        raise UnsupportedCallError("takes numbers of f32, at least one, and a seed of i64")
    register("dropout")
    return jax.ffi.ffi_call("cpu_kernels_dropout", same(x))(x, *seed, kept=kept)


def dropout_backward(
    grad_output: Array, *seed: Array, p: float, output_mask: tuple[bool, ...]
) -> Array:
    """`ptxla.dropout_backward`: what was dropped has no gradient.

    Raises:
        UnsupportedCallError: as the forward.
    """
    if output_mask != (True,):
        raise UnsupportedCallError("computes the gradient of x")
    return dropout(grad_output, *seed, p=p)


def kept_by(p: float) -> np.float32:
    """The share of numbers that dropout keeps.

    Raises:
        UnsupportedCallError: it keeps none.
    """
    if not 0 <= p < 1:
        raise UnsupportedCallError(f"takes a probability that is less than 1, not {p:g}")
    # As PyTorch computes it: 1 - p in f64. The attribute is f32, which is p in its shortest form.
    return np.float32(1 - float(str(np.float32(p))))
