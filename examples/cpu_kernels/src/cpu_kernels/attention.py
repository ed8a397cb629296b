"""Attention, by ATen's flash kernels for the CPU. They read XLA's buffers where they lie."""

from __future__ import annotations

import math

import jax
import numpy as np
from jax import Array

from composites import UnsupportedCallError
from cpu_kernels.library import register
from cpu_kernels.types import check_floats, check_shape, same


def attention(
    query: Array,
    key: Array,
    value: Array,
    *mask: Array,
    dropout_p: float,
    is_causal: bool,
    enable_gqa: bool,
    scale: float | None = None,
) -> list[Array]:
    """`ptxla.scaled_dot_product_attention`.

    Args:
        query: `[…, Hq, L, E]`; f32, bf16 or f16.
        key, value: `[…, H, S, E]`; H divides Hq if `enable_gqa`, and otherwise is Hq.
        mask: none, or one: i1, or added to the scores and of their type; broadcast to
            `[…, Hq, L, S]`.

    Returns:
        `[…, Hq, L, E]`, and the logarithms of the sums of exponentials, `[…, Hq, L]`, f32.

    Raises:
        UnsupportedCallError: for dropout, value heads of another size, and without torch.
    """
    _check(query, key, value, dropout_p, enable_gqa)
    q, k, v = _four(query), _four(key), _four(value)
    masks = _mask(mask, query, key, is_causal)
    register("attention", needs_torch=True)
    row = jax.ShapeDtypeStruct(q.shape[:-1], np.float32)
    call = jax.ffi.ffi_call("cpu_kernels_attention", (same(q), row))
    result, sums = call(q, k, v, *masks, **_attributes(is_causal, scale, query))
    return [result.reshape(query.shape), sums.reshape(query.shape[:-1])]


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
        grad_output: `[…, Hq, L, E]`.
        saved: the mask if there is one; the forward's two results.

    Raises:
        UnsupportedCallError: as the forward, and where other gradients are wanted.
    """
    _check(query, key, value, dropout_p, enable_gqa)
    if output_mask != (True, True, True, False):
        raise UnsupportedCallError("computes the gradients of query, key and value")
    *mask, result, sums = saved
    q, k, v = _four(query), _four(key), _four(value)
    masks = _mask(mask, query, key, is_causal)
    for name, given in (("a gradient", grad_output), ("a result", result)):
        check_shape(name, given, query.shape)
    check_shape("logarithms of sums", sums, query.shape[:-1])
    register("attention", needs_torch=True)
    types = (same(q), same(k), same(v))
    call = jax.ffi.ffi_call("cpu_kernels_attention_backward", types)
    operands = (_four(grad_output), q, k, v, *masks, _four(result), sums.reshape(q.shape[:-1]))
    found = call(*operands, **_attributes(is_causal, scale, query))
    return [
        gradient.reshape(operand.shape)
        for gradient, operand in zip(found, (query, key, value), strict=True)
    ]


def _check(query: Array, key: Array, value: Array, dropout_p: float, enable_gqa: bool) -> None:
    check_floats(query, key, value)
    if dropout_p != 0:
        raise UnsupportedCallError("takes no dropout, whose random numbers are XLA's")
    if query.ndim < 3 or query.shape[:-3] != key.shape[:-3] or key.shape != value.shape:
        raise UnsupportedCallError("takes key and value of one shape, with the batch of query")
    if query.shape[-1] != key.shape[-1]:
        raise UnsupportedCallError("takes query and key with heads of one size")
    heads, of_key = query.shape[-3], key.shape[-3]
    if query.size == 0 or key.size == 0 or heads % of_key or not (enable_gqa or heads == of_key):
        raise UnsupportedCallError("takes heads of which those of key are a divisor")


def _four(x: Array) -> Array:
    """`[N, H, L, E]`, with all dimensions of the batch in N."""
    return x.reshape(math.prod(x.shape[:-3]), *x.shape[-3:])


def _mask(
    mask: tuple[Array, ...] | list[Array], query: Array, key: Array, is_causal: bool
) -> list[Array]:
    """A mask as `[N or 1, H or 1, L or 1, S or 1]`."""
    if not mask:
        return []
    (given,) = mask
    if is_causal:
        raise UnsupportedCallError("takes a mask, or is causal, but not both")
    if given.dtype not in (np.bool_, query.dtype):
        raise UnsupportedCallError("takes a mask of i1, or of the type of query")
    shape = (1,) * (query.ndim - given.ndim) + given.shape
    batch = query.shape[:-3]
    if len(shape) > len(batch) + 3 or shape[:-3] not in (batch, (1,) * len(batch)):
        raise UnsupportedCallError("takes a mask for the whole batch, or for each part of it")
    scores = (*query.shape[-3:-1], key.shape[-2])
    if any(size not in (1, whole) for size, whole in zip(shape[-3:], scores, strict=True)):
        raise UnsupportedCallError(f"takes a mask for scores of {scores}, not of {given.shape}")
    return [given.reshape(math.prod(shape[:-3]), *shape[-3:])]


def _attributes(is_causal: bool, scale: float | None, query: Array) -> dict[str, np.generic]:
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    return {"is_causal": np.bool_(is_causal), "scale": np.float64(factor)}
