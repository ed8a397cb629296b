"""Gradients of softmax and log-softmax whose sums are computed as products; see sums.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
from jax import Array

from composites.alternatives.sums import in_blocks, sum_of_each

if TYPE_CHECKING:
    import torch


def softmax_backward(
    grad_output: Array, output: Array, dim: int, input_dtype: torch.dtype
) -> Array:
    """`aten::_softmax_backward_data` for the last dimension, with all types f32."""
    grads, weights = in_blocks(grad_output, 1), in_blocks(output, 1)
    grad_scores = weights * (grads - sum_of_each(grads * weights))
    return grad_scores.reshape(output.shape)


def log_softmax_backward(
    grad_output: Array, output: Array, dim: int, input_dtype: torch.dtype
) -> Array:
    """`aten::_log_softmax_backward_data` for the last dimension, with all types f32."""
    grads, logarithms = in_blocks(grad_output, 1), in_blocks(output, 1)
    grad_scores = grads - jnp.exp(logarithms) * sum_of_each(grads)
    return grad_scores.reshape(output.shape)
