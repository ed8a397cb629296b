"""The gradient of an embedding's table."""

from __future__ import annotations

import jax
import numpy as np
from jax import Array

from composites import UnsupportedCallError
from cpu_kernels.library import register
from cpu_kernels.types import check_floats, check_shape, same


def embedding_dense_backward(
    grad_output: Array,
    indices: Array,
    *,
    num_weights: int,
    padding_idx: int,
    scale_grad_by_freq: bool,
) -> Array:
    """`ptxla.embedding_dense_backward`.

    Args:
        grad_output: `[*indices.shape, D]`; f32, bf16 or f16.
        indices: `[…]`, i64. An index that is not a row of the table is an error of the step.

    Returns:
        `[num_weights, D]`; the sums are in f32.

    Raises:
        UnsupportedCallError: for indices of other types, and a gradient of another shape.
    """
    check_floats(grad_output)
    if indices.dtype != np.int64 or grad_output.size == 0 or num_weights == 0:
        raise UnsupportedCallError("takes indices of i64, at least one")
    check_shape("a gradient", grad_output, (*indices.shape, grad_output.shape[-1]))
    register("indexing")
    result = same(grad_output, (num_weights, grad_output.shape[-1]))
    call = jax.ffi.ffi_call("cpu_kernels_embedding_backward", result)
    return call(
        grad_output,
        indices,
        padding_idx=np.int64(padding_idx),
        scale_grad_by_freq=np.bool_(scale_grad_by_freq),
    )
