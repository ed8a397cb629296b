"""Norms whose sums are products, as sums.py says.

Variances are those of centered values: stock subtracts the square of the mean from the mean of
squares, and has no digit left where a mean is large. Backwards read what the forward saves.
"""

from __future__ import annotations

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
    """`aten::native_layer_norm`: the result, and mean and reciprocal standard deviation."""
    rows = in_blocks(input, len(normalized_shape))
    mean = _mean(rows)
    centered = rows - mean
    rstd = lax.rsqrt(sum_of_each(centered * centered) / _length(rows) + eps)
    result = centered * rstd
    if weight is not None:
        result = result * weight.reshape(rows.shape[-2:])
    if bias is not None:
        result = result + bias.reshape(rows.shape[-2:])
    kept = (*input.shape[: input.ndim - len(normalized_shape)], *(1 for _ in normalized_shape))
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
    rows, grads = (in_blocks(array, len(normalized_shape)) for array in (input, grad_output))
    count = _length(rows)
    mean, rstd = (saved.reshape(*rows.shape[:-2], 1, 1) for saved in (result_1, result_2))
    centered = rows - mean
    weighted = grads if weight is None else grads * weight.reshape(rows.shape[-2:])
    of_mean = sum_of_each(weighted) / count
    of_rstd = sum_of_each(weighted * centered) / count * rstd * rstd
    of_input = (weighted - of_mean - centered * of_rstd) * rstd
    of_weight, of_bias = None, None
    if output_mask[1]:
        of_weight = sum_of_rows(grads * centered * rstd).reshape(normalized_shape)
    if output_mask[2]:
        of_bias = sum_of_rows(grads).reshape(normalized_shape)
    return of_input.reshape(input.shape), of_weight, of_bias


def rms_norm(
    input: Array, normalized_shape: Sequence[int], weight: Array | None, eps: float | None
) -> Array:
    """`aten::rms_norm`."""
    rows = in_blocks(input, len(normalized_shape))
    result = rows * _reciprocal_root(rows, eps)
    if weight is not None:
        result = result * weight.reshape(rows.shape[-2:])
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
    rows, grads = (in_blocks(array, len(normalized_shape)) for array in (input, grad_output))
    root = _reciprocal_root(rows, eps)
    weighted = grads if weight is None else grads * weight.reshape(rows.shape[-2:])
    of_root = sum_of_each(weighted * rows) * (root * root * root / _length(rows))
    of_input = weighted * root - rows * of_root
    of_weight = None
    if output_mask[1]:
        of_weight = sum_of_rows(grads * (rows * root)).reshape(normalized_shape)
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
    images = _in_one(input)
    mean, centered, variance = _statistics(images)
    scale = lax.rsqrt(variance + eps)
    if weight is not None:
        scale = scale * _of_channels(weight)
    result = centered * scale
    if bias is not None:
        result = result + _of_channels(bias)
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
    of_input = grads - sums / count - centered * (normed_sums * rstd / count)
    of_input = of_input * (rstd if weight is None else rstd * _of_channels(weight))
    return (
        of_input.reshape(input.shape),
        normed_sums.reshape(-1) if output_mask[1] else None,
        sums.reshape(-1) if output_mask[2] else None,
    )


def group_norm(
    input: Array,
    weight: Array | None,
    bias: Array | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
) -> tuple[Array, Array, Array]:
    """`aten::native_group_norm`: the result, and mean and reciprocal standard deviation."""
    groups = input.reshape(N, group, C // group, HxW)
    mean = _of_groups(groups) / _length(groups)
    # What the first sum has lost, as in `_mean`.
    lost = _of_groups(groups - mean) / _length(groups)
    mean = jnp.where(jnp.isfinite(mean), mean + lost, mean)
    centered = groups - mean
    rstd = lax.rsqrt(_of_groups(centered * centered) / _length(groups) + eps)
    result = centered * rstd
    if weight is not None:
        result = result * weight.reshape(group, -1, 1)
    if bias is not None:
        result = result + bias.reshape(group, -1, 1)
    return result.reshape(input.shape), mean.reshape(N, group), rstd.reshape(N, group)


def group_norm_backward(
    grad_output: Array | None,
    grad_output_1: Array | None,
    grad_output_2: Array | None,
    input: Array,
    weight: Array | None,
    result_1: Array,
    result_2: Array,
    N: int,
    C: int,
    HxW: int,
    group: int,
    output_mask: Sequence[bool],
) -> tuple[Array, Array | None, Array | None]:
    """The gradients of input, weight and bias.

    Args:
        grad_output_1, grad_output_2: those of mean and rstd, `[N, group]`, where these are used.
        result_1, result_2: the mean and its rstd.
    """
    shape = N, group, C // group, HxW
    groups = input.reshape(shape)
    grads = jnp.zeros(shape) if grad_output is None else grad_output.reshape(shape)
    mean, rstd = (saved.reshape(N, group, 1, 1) for saved in (result_1, result_2))
    centered = groups - mean
    # Of each channel, for its weight and bias too.
    sums, centered_sums = _of_channel(grads), _of_channel(grads * centered)
    weights = jnp.float32(1) if weight is None else weight.reshape(group, -1, 1)
    of_mean = (sums * weights).sum(2, keepdims=True) * rstd
    of_rstd = (centered_sums * weights).sum(2, keepdims=True)
    if grad_output_1 is not None:
        of_mean = of_mean - grad_output_1.reshape(mean.shape)
    if grad_output_2 is not None:
        of_rstd = of_rstd + grad_output_2.reshape(rstd.shape)
    of_deviation = of_rstd * rstd * rstd * rstd / _length(groups)
    of_input = grads * weights * rstd - of_mean / _length(groups) - centered * of_deviation
    return (
        of_input.reshape(input.shape),
        (centered_sums * rstd).sum(0).reshape(C) if output_mask[1] else None,
        sums.sum(0).reshape(C) if output_mask[2] else None,
    )


def _of_channel(groups: Array) -> Array:
    """The sum of each channel of `[N, group, channels, pixels]`. Its dimensions stay.

    The pixels are one block: XLA does not compute what it adds up in the loop of several.
    """
    return sum_of_each(groups[..., None, :])[..., 0]


def _of_groups(groups: Array) -> Array:
    """The sum of each group of `[N, group, channels, pixels]`. Its dimensions stay."""
    return _of_channel(groups).sum(2, keepdims=True)


def _statistics(images: Array) -> tuple[Array, Array, Array]:
    """The mean of each channel, the centered values, and the biased variance."""
    count = _length(images) * images.shape[0]
    mean = sum_of_each(images).sum(0) / count
    mean = mean + sum_of_each(images - mean).sum(0) / count
    centered = images - mean
    return mean, centered, sum_of_each(centered * centered).sum(0) / count


def _mean(rows: Array) -> Array:
    """Of each row. What the first sum has lost is found once it is subtracted: the mean of equal
    numbers is that number."""
    count = _length(rows)
    mean = sum_of_each(rows) / count
    return jnp.where(jnp.isfinite(mean), mean + sum_of_each(rows - mean) / count, mean)


def _reciprocal_root(rows: Array, eps: float | None) -> Array:
    if eps is None:
        eps = float(jnp.finfo(rows.dtype).eps)
    return lax.rsqrt(_mean(rows * rows) + eps)


def _in_one(images: Array) -> Array:
    """The same for images `[N, C, …]`: one block for each. They are short, and there are sums over
    the images after those of each."""
    return images.reshape(*images.shape[:2], 1, -1)


def _length(rows: Array) -> int:
    return math.prod(rows.shape[-2:])


def _of_channels(array: Array) -> Array:
    return array.reshape(-1, 1, 1)
