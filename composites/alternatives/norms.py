"""Norms whose sums are computed as products; see sums.py.

Variances are computed from centered values: the stock lowering subtracts the square of the mean
from the mean of squares, and loses all digits if a mean is large. Backwards read saved values.
"""

import math
from collections.abc import Sequence

import jax.numpy as jnp
from jax import Array, lax

from composites.alternatives.sums import in_blocks, sum_of_each, sum_of_rows


def layer_norm(
    input: Array,
    normalized_shape: Sequence[int],
    weight: Array | None,
    bias: Array | None,
    eps: float,
) -> tuple[Array, Array, Array]:
    """`aten::native_layer_norm`: the result, the mean, and the reciprocal standard deviation."""
    rows = in_blocks(input, len(normalized_shape))
    mean = _mean(rows)
    centered = rows - mean
    rstd = lax.rsqrt(sum_of_each(centered * centered) / _length(rows) + eps)
    result = _affine(centered * rstd, weight, bias)
    kept = _statistics_shape(input, normalized_shape)
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
    """The gradients of input, weight and bias. `result_1` is the mean, `result_2` the rstd."""
    rows, grads = (in_blocks(array, len(normalized_shape)) for array in (input, grad_output))
    count = _length(rows)
    mean, rstd = (saved.reshape(*rows.shape[:-2], 1, 1) for saved in (result_1, result_2))
    centered = rows - mean
    weighted = _affine(grads, weight, None)
    mean_part = sum_of_each(weighted) / count
    rstd_part = sum_of_each(weighted * centered) / count * rstd * rstd
    grad_input = (weighted - mean_part - centered * rstd_part) * rstd
    grad_weight, grad_bias = None, None
    if output_mask[1]:
        grad_weight = sum_of_rows(grads * centered * rstd).reshape(normalized_shape)
    if output_mask[2]:
        grad_bias = sum_of_rows(grads).reshape(normalized_shape)
    return grad_input.reshape(input.shape), grad_weight, grad_bias


def rms_norm(
    input: Array, normalized_shape: Sequence[int], weight: Array | None, eps: float | None
) -> tuple[Array, Array]:
    """`aten::rms_norm`: the result, and the reciprocal root of the mean of squares."""
    rows = in_blocks(input, len(normalized_shape))
    root = _reciprocal_root(rows, eps)
    result = _affine(rows * root, weight, None)
    kept = _statistics_shape(input, normalized_shape)
    return result.reshape(input.shape), root.reshape(kept)


def rms_norm_of_models(
    input: Array, weight: Array, *, normalized_shape: Sequence[int], eps: float
) -> tuple[Array, Array]:
    """The RMS norms of models, which differ only in their roundings to half precision."""
    return rms_norm(input, normalized_shape, weight, eps)


def rms_norm_backward(
    grad_output: Array,
    input: Array,
    weight: Array | None,
    inverse_rms: Array,
    normalized_shape: Sequence[int],
    output_mask: Sequence[bool],
) -> tuple[Array, Array | None]:
    """The gradients of input and weight."""
    rows, grads = (in_blocks(array, len(normalized_shape)) for array in (input, grad_output))
    root = inverse_rms.reshape(*rows.shape[:-2], 1, 1)
    weighted = _affine(grads, weight, None)
    root_part = sum_of_each(weighted * rows) * (root * root * root / _length(rows))
    grad_input = weighted * root - rows * root_part
    grad_weight = None
    if output_mask[1]:
        grad_weight = sum_of_rows(grads * (rows * root)).reshape(normalized_shape)
    return grad_input.reshape(input.shape), grad_weight


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
    """`batch_norm_training`: the result, and both moving averages."""
    images = _in_one(input)
    mean, centered, variance = _statistics(images)
    scale = lax.rsqrt(variance + eps)
    if weight is not None:
        scale = scale * _per_channel(weight)
    result = centered * scale
    if bias is not None:
        result = result + _per_channel(bias)
    return (
        result.reshape(input.shape),
        running_mean * (1 - momentum) + mean.reshape(-1) * momentum,
        running_var * (1 - momentum) + variance.reshape(-1) * momentum,
    )


def batch_norm_backward(
    grad_output: Array,
    input: Array,
    weight: Array | None,
    eps: float,
    output_mask: Sequence[bool],
) -> tuple[Array, Array | None, Array | None]:
    """The gradients of input, weight and bias."""
    images, grads = _in_one(input), _in_one(grad_output)
    count = _length(images) * images.shape[0]
    _, centered, variance = _statistics(images)
    rstd = lax.rsqrt(variance + eps)
    sums = sum_of_each(grads).sum(0)
    normed_sums = sum_of_each(grads * centered).sum(0) * rstd
    grad_input = grads - sums / count - centered * (normed_sums * rstd / count)
    grad_input = grad_input * (rstd if weight is None else rstd * _per_channel(weight))
    return (
        grad_input.reshape(input.shape),
        normed_sums.reshape(-1) if output_mask[1] else None,
        sums.reshape(-1) if output_mask[2] else None,
    )


def _statistics(images: Array) -> tuple[Array, Array, Array]:
    """Return the mean of each channel, the centered values, and the biased variance."""
    count = _length(images) * images.shape[0]
    mean = sum_of_each(images).sum(0) / count
    mean = mean + sum_of_each(images - mean).sum(0) / count
    centered = images - mean
    return mean, centered, sum_of_each(centered * centered).sum(0) / count


def _affine(rows: Array, weight: Array | None, bias: Array | None) -> Array:
    """`rows * weight + bias`. Weight and bias have the shape of one row, or are None."""
    shape = rows.shape[-2:]
    scaled = rows if weight is None else rows * weight.reshape(shape)
    return scaled if bias is None else scaled + bias.reshape(shape)


def _statistics_shape(input: Array, normalized_shape: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of statistics, with one number for each row."""
    count = len(normalized_shape)
    return (*input.shape[: input.ndim - count], *[1] * count)


def _mean(rows: Array) -> Array:
    """Return the mean of each row. A second sum, of the differences from the first mean, corrects
    its rounding, so the mean of equal numbers is exact."""
    count = _length(rows)
    mean = sum_of_each(rows) / count
    return jnp.where(jnp.isfinite(mean), mean + sum_of_each(rows - mean) / count, mean)


def _reciprocal_root(rows: Array, eps: float | None) -> Array:
    if eps is None:
        eps = float(jnp.finfo(rows.dtype).eps)
    return lax.rsqrt(_mean(rows * rows) + eps)


def _in_one(images: Array) -> Array:
    """Reshape images `[N, C, …]` to rows of one block: rows are short, and after each sum of rows
    there is a sum over the images."""
    return images.reshape(*images.shape[:2], 1, -1)


def _length(rows: Array) -> int:
    return math.prod(rows.shape[-2:])


def _per_channel(array: Array) -> Array:
    return array.reshape(-1, 1, 1)
