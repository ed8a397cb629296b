"""RMS norm and its gradient, one row at a time: Zhang and Sennrich, "Root Mean Square Layer
Normalization" (2019), section 3."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from composites import UnsupportedCallError
from gpu_kernels.pallas import call, first, index, power_of_two, warps_for
from gpu_kernels.types import check_floats, same

_LONGEST = 16384
"""Numbers of a row. A program holds a whole row in registers."""
_ROWS = 16
"""Rows of one program of the backward. Their gradients of the weight are one partial sum."""


def rms_norm(
    x: Array,
    weight: Array | None = None,
    *,
    normalized_shape: tuple[int, ...],
    eps: float | None = None,
) -> list[Array]:
    """`ptxla.rms_norm`.

    Args:
        x: `[…, *normalized_shape]`; f32, bf16 or f16.
        weight: `normalized_shape`, of the type of `x`.
        eps: by default the epsilon of f32, in which all types are computed.

    Returns:
        The result, as `x`, and the reciprocal root of the mean of squares, `[…, 1, …]`, f32.

    Raises:
        UnsupportedCallError: for operands of several types, and rows that are too long.
    """
    operands = [x] if weight is None else [x, weight]
    rows, size = _rows(operands, x, normalized_shape)
    block = power_of_two(size)
    flat = [x.reshape(rows, size), *(w.reshape(size) for w in operands[1:])]
    row = pl.BlockSpec((None, block), lambda i: (i, 0))
    whole = pl.BlockSpec((block,), lambda i: (0,))
    one = pl.BlockSpec((1,), lambda i: (i,))
    result, root = call(
        partial(_forward, size=size, eps=_eps(eps)),
        [same(flat[0]), jax.ShapeDtypeStruct((rows,), jnp.float32)],
        flat,
        grid=(rows,),
        read=[row, whole][: len(flat)],
        written=[row, one],
        warps=warps_for(block),
    )
    count = len(normalized_shape)
    kept = (*x.shape[: x.ndim - count], *[1] * count)
    return [result.reshape(x.shape), root.reshape(kept)]


def rms_norm_backward(
    grad_output: Array,
    x: Array,
    *saved: Array,
    normalized_shape: tuple[int, ...],
    output_mask: tuple[bool, ...],
    eps: float | None = None,
) -> list[Array]:
    """`ptxla.rms_norm_backward`: the gradients of x and, if there is one, of the weight.

    Args:
        grad_output: as `x`.
        saved: the weight, if there is one, and the reciprocal root of the forward.
        eps: is in the root already.

    Raises:
        UnsupportedCallError: as the forward, and where a gradient is not needed.
    """
    *weights, root = saved
    if not output_mask[0] or any(output_mask[1:]) != bool(weights):
        raise UnsupportedCallError("computes the gradients of x and of the weight")
    rows, size = _rows([grad_output, x, *weights], x, normalized_shape)
    block, programs = power_of_two(size), pl.cdiv(rows, _ROWS)
    flat = [*(each.reshape(rows, size) for each in (grad_output, x)), root.reshape(rows)]
    flat += [each.reshape(size) for each in weights]
    numbers = pl.BlockSpec((_ROWS,), lambda i: (i,))
    of_rows = pl.BlockSpec((_ROWS, block), lambda i: (i, 0))
    whole = pl.BlockSpec((block,), lambda i: (0,))
    partial_sums = pl.BlockSpec((None, block), lambda i: (i, 0))
    kinds = [same(flat[1]), jax.ShapeDtypeStruct((programs, size), jnp.float32)]
    results = call(
        partial(_backward, rows=rows, size=size),
        kinds[: 1 + len(weights)],
        flat,
        grid=(programs,),
        read=[of_rows, of_rows, numbers, whole][: len(flat)],
        written=[of_rows, partial_sums][: 1 + len(weights)],
        warps=warps_for(block),
    )
    if not weights:
        return [results[0].reshape(x.shape)]
    (weight,) = weights
    of_weight = jnp.sum(results[1], 0).astype(weight.dtype).reshape(weight.shape)
    return [results[0].reshape(x.shape), of_weight]


def _forward(x_ref: Any, *refs: Any, size: int, eps: float) -> None:
    *weights, result_ref, root_ref = refs
    kept = index(x_ref.shape[0]) < size
    x = _loaded(x_ref.at[:], kept)
    root = jax.lax.rsqrt(jnp.sum(x * x) / size + eps)
    root_ref[0] = root
    result = x * root
    if weights:
        result = result * _loaded(weights[0].at[:], kept)
    triton.store(result_ref.at[:], result.astype(result_ref.dtype), mask=kept)


def _backward(grad_ref: Any, x_ref: Any, root_ref: Any, *refs: Any, rows: int, size: int) -> None:
    weighted = len(refs) == 3
    weight_ref, result_ref, sums_ref = refs if weighted else (None, refs[0], None)
    block = x_ref.shape[1]
    kept = index(block) < size
    scale = _loaded(weight_ref.at[:], kept) if weighted else 1.0
    start = first() * _ROWS

    def row(number: Array, of_weight: Array) -> Array:
        mask = kept & (start + number < rows)
        grad, x = (_loaded(ref.at[number, :], mask) for ref in (grad_ref, x_ref))
        root = triton.load(root_ref.at[number], mask=start + number < rows, other=0.0)
        scaled = grad * scale
        mean = jnp.sum(scaled * x) / size
        of_x = (scaled - x * (mean * root * root)) * root
        triton.store(result_ref.at[number, :], of_x.astype(result_ref.dtype), mask=mask)
        return of_weight + grad * x * root  # zero for a row that is not there

    sums = jax.lax.fori_loop(jnp.int32(0), jnp.int32(_ROWS), row, jnp.zeros((block,), jnp.float32))
    if weighted:
        triton.store(sums_ref.at[:], sums, mask=kept)


def _loaded(ref: Any, mask: Array) -> Array:
    return triton.load(ref, mask=mask, other=0.0).astype(jnp.float32)


def _rows(operands: list[Array], x: Array, shape: tuple[int, ...]) -> tuple[int, int]:
    check_floats(*operands)
    size = math.prod(shape)
    if size > _LONGEST:
        raise UnsupportedCallError(f"takes rows of at most {_LONGEST} numbers, not {size}")
    return x.size // size, size


def _eps(eps: float | None) -> float:
    return float(jnp.finfo(jnp.float32).eps) if eps is None else eps
