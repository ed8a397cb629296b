"""Attention, in blocks of queries, whose matrix products are ATen's."""

from __future__ import annotations

import math

import jax
import numpy as np
from jax import Array

from composites import UnsupportedCallError
from cpu_kernels.dropout import kept_by
from cpu_kernels.library import register
from cpu_kernels.types import check_floats, check_shape, same


def attention(
    query: Array,
    key: Array,
    value: Array,
    *others: Array,
    dropout_p: float,
    is_causal: bool,
    enable_gqa: bool,
    scale: float | None = None,
) -> list[Array]:
    """`ptxla.scaled_dot_product_attention`.

    Args:
        query: `[…, Hq, L, E]`; f32, bf16 or f16.
        key, value: `[…, H, S, E]` and `[…, H, S, Ev]`; H divides Hq if `enable_gqa`, and otherwise
            is Hq.
        others: the mask if there is one: i1, or added to the scores and of their type; broadcast to
            `[…, Hq, L, S]`. With dropout also the state of the generator, `[]`, i64.

    Returns:
        `[…, Hq, L, Ev]`, and the logarithms of the sums of exponentials, `[…, Hq, L]`, f32. What
        is dropped has the bits of the decomposition.

    Raises:
        UnsupportedCallError: for dropout of other types than f32, and without torch.
    """
    _check(query, key, value, enable_gqa)
    masks, seeds = _mask_and_seed(others, query, key, dropout_p, is_causal)
    q, k, v = _four(query), _four(key), _four(value)
    register("attention", needs_torch=True)
    row = jax.ShapeDtypeStruct(q.shape[:-1], np.float32)
    types = same(q, (*q.shape[:-1], v.shape[-1])), row
    call = jax.ffi.ffi_call("cpu_kernels_attention", types)
    attributes = _attributes(is_causal, scale, query, masks, dropout_p)
    result, sums = call(q, k, v, *masks, *seeds, **attributes)
    shape = query.shape[:-1]
    return [result.reshape(*shape, value.shape[-1]), sums.reshape(shape)]


def attention_backward(
    grad_output: Array,
    query: Array,
    key: Array,
    value: Array,
    *saved: Array,
    dropout_p: float,
    is_causal: bool,
    enable_gqa: bool,
    output_mask: tuple[bool, ...],
    scale: float | None = None,
) -> list[Array]:
    """`ptxla.scaled_dot_product_attention_backward`: the gradients of query, key and value.

    Args:
        grad_output: `[…, Hq, L, Ev]`.
        saved: the mask if there is one; the forward's two results; with dropout the state of the
            generator.

    Raises:
        UnsupportedCallError: as the forward, and where other gradients are needed.
    """
    _check(query, key, value, enable_gqa)
    if output_mask != (True, True, True, False):
        raise UnsupportedCallError("computes the gradients of query, key and value")
    count = len(saved) - (3 if dropout_p else 2)
    if count < 0:
        raise UnsupportedCallError("takes what the forward has saved")
    sums = saved[count + 1]
    others = (*saved[:count], *saved[count + 2 :])
    masks, seeds = _mask_and_seed(others, query, key, dropout_p, is_causal)
    q, k, v = _four(query), _four(key), _four(value)
    check_floats(grad_output, query)
    check_shape("a gradient", grad_output, (*query.shape[:-1], value.shape[-1]))
    check_shape("logarithms of sums", sums, query.shape[:-1])
    if sums.dtype != np.float32:
        raise UnsupportedCallError(f"takes logarithms of sums of f32, not of {sums.dtype}")
    register("attention", needs_torch=True)
    call = jax.ffi.ffi_call("cpu_kernels_attention_backward", (same(q), same(k), same(v)))
    operands = (_four(grad_output), q, k, v, *masks, sums.reshape(q.shape[:-1]), *seeds)
    gradients = call(*operands, **_attributes(is_causal, scale, query, masks, dropout_p))
    return [
        gradient.reshape(operand.shape)
        for gradient, operand in zip(gradients, (query, key, value), strict=True)
    ]


def _check(query: Array, key: Array, value: Array, enable_gqa: bool) -> None:
    check_floats(query, key, value)
    if query.ndim < 3 or query.shape[:-3] != key.shape[:-3] or key.shape[:-1] != value.shape[:-1]:
        raise UnsupportedCallError("takes as many values as keys, with the batch of query")
    if query.shape[-1] != key.shape[-1]:
        raise UnsupportedCallError("takes query and key with heads of one size")
    heads, of_key = query.shape[-3], key.shape[-3]
    if 0 in (query.size, key.size, value.size):
        raise UnsupportedCallError("takes at least one number")
    if heads % of_key or not (enable_gqa or heads == of_key):
        raise UnsupportedCallError("takes heads of which those of key are a divisor")


def _four(x: Array) -> Array:
    """`[N, H, L, E]`, with all dimensions of the batch in N."""
    return x.reshape(math.prod(x.shape[:-3]), *x.shape[-3:])


def _mask_and_seed(
    operands: tuple[Array, ...], query: Array, key: Array, dropout_p: float, is_causal: bool
) -> tuple[list[Array], list[Array]]:
    """Both as lists of none or one. The mask is `[N or 1, H or 1, L or 1, S or 1]`."""
    kept_by(dropout_p)  # where all is dropped, there is no seed
    masks, seeds = list(operands), []
    if dropout_p != 0:
        seeds = masks[-1:]
        del masks[-1:]
        if query.dtype != np.float32:
            raise UnsupportedCallError(f"takes dropout with numbers of f32, not of {query.dtype}")
        if [(seed.dtype, seed.shape) for seed in seeds] != [(np.int64, ())]:
            raise UnsupportedCallError("takes dropout with a seed of i64")
    if len(masks) > 1:
        raise UnsupportedCallError(f"takes one mask at most, not {len(masks)}")
    return [_mask(mask, query, key, is_causal) for mask in masks], seeds


def _mask(mask: Array, query: Array, key: Array, is_causal: bool) -> Array:
    if is_causal:
        raise UnsupportedCallError("takes a mask, or is causal, but not both")
    if mask.dtype not in (np.bool_, query.dtype):
        raise UnsupportedCallError("takes a mask of i1, or of the type of query")
    shape = (1,) * (query.ndim - mask.ndim) + mask.shape
    batch = query.shape[:-3]
    if len(shape) > len(batch) + 3 or shape[:-3] not in (batch, (1,) * len(batch)):
        raise UnsupportedCallError("takes a mask for the whole batch, or for each part of it")
    scores = (*query.shape[-3:-1], key.shape[-2])
    if any(size not in (1, whole) for size, whole in zip(shape[-3:], scores, strict=True)):
        raise UnsupportedCallError(f"takes a mask for scores of {scores}, not of {mask.shape}")
    return mask.reshape(math.prod(shape[:-3]), *shape[-3:])


def _attributes(
    is_causal: bool, scale: float | None, query: Array, masks: list[Array], dropout_p: float
) -> dict[str, np.generic]:
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    return {
        "is_causal": np.bool_(is_causal),
        "masked": np.bool_(bool(masks)),
        "scale": np.float32(factor),
        "kept": kept_by(dropout_p),
    }
