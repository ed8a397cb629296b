"""Norms whose sums are products with a vector of ones or of weights.

XLA's CPU compiler adds up a row number by number, because each sum must wait for the one before it,
and a product of a matrix and a vector in lanes of a register. Variances are still those of centered
values, in a pass of their own: sums of squares lose too many digits. Backwards read what the
forward saves, and no sum is computed twice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax.numpy as jnp
from jax import Array, lax


def layer_norm(
    input: Array,
    normalized_shape: Sequence[int],
    weight: Array | None,
    bias: Array | None,
    eps: float,
) -> tuple[Array, Array, Array]:
    """`aten::native_layer_norm`: the result, and mean and reciprocal standard deviation."""
    rows = _rows(input, normalized_shape)
    count = rows.shape[-1]
    mean = _sum(rows) / count
    centered = rows - mean[..., None]
    rstd = lax.rsqrt(_sum(centered * centered) / count + eps)
    result = centered * rstd[..., None]
    if weight is not None:
        result = result * weight.reshape(count)
    if bias is not None:
        result = result + bias.reshape(count)
    kept = (*mean.shape, *(1 for _ in normalized_shape))
    return result.reshape(input.shape), mean.reshape(kept), rstd.reshape(kept)


def layer_norm_backward(
    grad_output: Array,
    input: Array,
    weight: Array | None,
    result_1: Array,
    result_2: Array,
    normalized_shape: Sequence[int],
    output_mask: Sequence[bool],
) -> tuple[Array, Array | None, Array | None]:
    """The gradients of input, weight and bias. `result_1` is the mean, `result_2` its rstd."""
    rows, grads = _rows(input, normalized_shape), _rows(grad_output, normalized_shape)
    count = rows.shape[-1]
    mean, rstd = (saved.reshape(*rows.shape[:-1], 1) for saved in (result_1, result_2))
    centered = rows - mean
    weights = _weights(weight, count)
    of_mean = (_product(grads, weights) / count)[..., None]
    of_rstd = (_product(grads * centered, weights) / count)[..., None] * rstd * rstd
    of_input = (grads * weights - of_mean - centered * of_rstd) * rstd
    leading = tuple(range(rows.ndim - 1))
    of_weight, of_bias = None, None
    if output_mask[1]:
        of_weight = (grads * centered * rstd).sum(leading).reshape(normalized_shape)
    if output_mask[2]:
        of_bias = grads.sum(leading).reshape(normalized_shape)
    return of_input.reshape(input.shape), of_weight, of_bias


def rms_norm(
    input: Array, normalized_shape: Sequence[int], weight: Array | None, eps: float | None
) -> Array:
    """`aten::rms_norm`."""
    rows = _rows(input, normalized_shape)
    result = rows * _reciprocal_root(rows, eps)
    if weight is not None:
        result = result * weight.reshape(rows.shape[-1])
    return result.reshape(input.shape)


def rms_norm_of_models(
    input: Array, weight: Array, *, normalized_shape: Sequence[int], eps: float
) -> Array:
    """The same for the norms of models, which differ in their roundings to half precision only."""
    return rms_norm(input, normalized_shape, weight, eps)


def rms_norm_backward(
    grad_output: Array,
    input: Array,
    weight: Array | None,
    normalized_shape: Sequence[int],
    eps: float | None,
    output_mask: Sequence[bool],
) -> tuple[Array, Array | None]:
    """The gradients of input and weight."""
    rows, grads = _rows(input, normalized_shape), _rows(grad_output, normalized_shape)
    count = rows.shape[-1]
    root = _reciprocal_root(rows, eps)
    weights = _weights(weight, count)
    of_root = _product(grads * rows, weights)[..., None] * root * root * root / count
    of_input = grads * weights * root - rows * of_root
    of_weight = None
    if output_mask[1]:
        leading = tuple(range(rows.ndim - 1))
        of_weight = (grads * (rows * root)).sum(leading).reshape(normalized_shape)
    return of_input.reshape(input.shape), of_weight


def batch_norm(
    input: Array,
    running_mean: Array,
    running_var: Array,
    weight: Array | None,
    bias: Array | None,
    *,
    momentum: float,
    eps: float,
) -> tuple[Array, Array, Array]:
    """The decomposition of `batch_norm_training`: the result, and both averages."""
    channels = input.reshape(*input.shape[:2], -1)
    count = channels.shape[0] * channels.shape[2]
    mean, centered, variance = _statistics(channels, count)
    result = centered * (_weights(weight, mean.size) * lax.rsqrt(variance + eps))[:, None]
    if bias is not None:
        result = result + bias[:, None]
    return (
        result.reshape(input.shape),
        running_mean * (1 - momentum) + mean * momentum,
        running_var * (1 - momentum) + variance * momentum,
    )


def batch_norm_backward(
    grad_output: Array,
    input: Array,
    weight: Array | None,
    eps: float,
    output_mask: Sequence[bool],
) -> tuple[Array, Array | None, Array | None]:
    """The gradients of input, weight and bias."""
    channels = input.reshape(*input.shape[:2], -1)
    grads = grad_output.reshape(channels.shape)
    count = channels.shape[0] * channels.shape[2]
    _, centered, variance = _statistics(channels, count)
    rstd = lax.rsqrt(variance + eps)
    sums = _sum(grads).sum(0)
    normed_sums = _sum(grads * centered).sum(0) * rstd
    of_mean, of_rstd = sums / count, normed_sums * rstd / count
    of_input = grads - of_mean[:, None] - centered * of_rstd[:, None]
    of_input = of_input * (_weights(weight, rstd.size) * rstd)[:, None]
    return (
        of_input.reshape(input.shape),
        normed_sums if output_mask[1] else None,
        sums if output_mask[2] else None,
    )


def _statistics(channels: Array, count: int) -> tuple[Array, Array, Array]:
    """Of `[N, C, HW]`: the mean of each channel, the centered values, and the biased variance."""
    mean = _sum(channels).sum(0) / count
    centered = channels - mean[:, None]
    return mean, centered, _sum(centered * centered).sum(0) / count


def _reciprocal_root(rows: Array, eps: float | None) -> Array:
    if eps is None:
        eps = float(jnp.finfo(rows.dtype).eps)
    return lax.rsqrt(_sum(rows * rows) / rows.shape[-1] + eps)[..., None]


def _rows(array: Array, normalized_shape: Sequence[int]) -> Array:
    """The normalized dimensions as one, the last one. The others can be sharded as they were."""
    leading = array.shape[: array.ndim - len(normalized_shape)]
    return array.reshape(*leading, math.prod(normalized_shape))


def _weights(weight: Array | None, count: int) -> Array:
    return jnp.ones(count, jnp.float32) if weight is None else weight.reshape(count)


def _sum(array: Array) -> Array:
    """The sum over the last dimension."""
    return _product(array, jnp.ones(array.shape[-1], array.dtype))


def _product(array: Array, vector: Array) -> Array:
    """The product of the last dimension and a vector."""
    return lax.dot_general(array, vector, (((array.ndim - 1,), (0,)), ((), ())))
