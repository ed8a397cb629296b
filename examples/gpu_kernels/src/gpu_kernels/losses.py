"""Cross entropy of logits and classes: each row once for the loss, and once for the gradient."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from composites import UnsupportedCallError
from gpu_kernels.pallas import call, index, power_of_two, second, warps_for
from gpu_kernels.types import check_floats, same

_BLOCK = 4096
"""Classes that a program holds at a time."""
_NONE, _MEAN = 0, 1


def cross_entropy_loss(
    logits: Array,
    target: Array,
    weight: Array | None = None,
    *,
    reduction: int,
    ignore_index: int,
    label_smoothing: float,
) -> list[Array]:
    """`ptxla.cross_entropy_loss`.

    Args:
        logits: `[N, C]`; f32, bf16 or f16.
        target: `[N]` classes, i64. A row whose class is out of range is ignored, as in the
            decomposition.

    Returns:
        The loss, and for each row the maximum and the logarithm of its sum of
        exp(logit - maximum), in f32.

    Raises:
        UnsupportedCallError: for probabilities as target, with weights or label smoothing, and for
            logits of other ranks.
    """
    _check(logits, target, weight, label_smoothing)
    rows, classes = logits.shape
    block = min(_BLOCK, power_of_two(classes))
    row = pl.BlockSpec((None, pl.cdiv(classes, block) * block), lambda i: (i, 0))
    one = pl.BlockSpec((1,), lambda i: (i,))
    numbers = jax.ShapeDtypeStruct((rows,), jnp.float32)
    maxima, log_sums, chosen = call(
        partial(_forward, classes=classes, block=block),
        [numbers] * 3,
        [logits, _classes(target, classes)],
        grid=(rows,),
        read=[row, one],
        written=[one] * 3,
        warps=warps_for(block),
    )
    counted = _counted(target, classes, ignore_index)
    losses = jnp.where(counted, log_sums - (chosen - maxima), 0.0)
    loss = losses
    if reduction != _NONE:
        loss = jnp.sum(losses)
    if reduction == _MEAN:
        loss = loss / _count(counted)
    return [loss.astype(logits.dtype), maxima, log_sums]


def cross_entropy_loss_backward(
    grad_output: Array,
    logits: Array,
    target: Array,
    *saved: Array,
    reduction: int,
    ignore_index: int,
    label_smoothing: float,
    output_mask: tuple[bool, ...],
) -> Array:
    """`ptxla.cross_entropy_loss_backward`: the gradient of the logits.

    Args:
        grad_output: `[]`, or `[N]` if nothing is reduced.
        saved: what the forward has kept.

    Raises:
        UnsupportedCallError: as the forward, and where other gradients are needed.
    """
    weight = saved[0] if len(saved) == 3 else None
    _check(logits, target, weight, label_smoothing)
    if output_mask != (True, False, False):
        raise UnsupportedCallError("computes the gradient of the logits only")
    maxima, log_sums = saved
    rows, classes = logits.shape
    counted = _counted(target, classes, ignore_index)
    factors = jnp.where(counted, grad_output.astype(jnp.float32), 0.0)
    if reduction == _MEAN:
        factors = factors / jnp.maximum(_count(counted), 1.0)
    block = min(_BLOCK, power_of_two(classes))
    part = pl.BlockSpec((None, block), lambda i, j: (i, j))
    one = pl.BlockSpec((1,), lambda i, j: (i,))
    (gradient,) = call(
        partial(_backward, classes=classes, block=block),
        [same(logits)],
        [logits, _classes(target, classes), maxima, log_sums, factors],
        grid=(rows, pl.cdiv(classes, block)),
        read=[part, one, one, one, one],
        written=[part],
        warps=warps_for(block),
    )
    return gradient


def _forward(
    logits_ref: Any,
    target_ref: Any,
    maximum_ref: Any,
    log_sum_ref: Any,
    chosen_ref: Any,
    *,
    classes: int,
    block: int,
) -> None:
    """The sum is kept relative to the largest number so far: Milakov and Gimelshein, "Online
    normalizer calculation for softmax" (2018), algorithm 3."""
    target = target_ref[0]

    def part(number: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        largest, total, chosen = carry
        start = number * block
        columns = index(block, start)
        x = triton.load(
            logits_ref.at[pl.ds(start, block)], mask=columns < classes, other=-jnp.inf
        ).astype(jnp.float32)
        new = jnp.maximum(largest, jnp.max(x))
        # Of minus infinity alone, the difference would be NaN.
        base = jnp.where(new == -jnp.inf, 0.0, new)
        total = total * jnp.exp(largest - base) + jnp.sum(jnp.exp(x - base))
        return new, total, chosen + jnp.sum(jnp.where(columns == target, x, 0.0))

    zero = jnp.float32(0)
    carry = jax.lax.fori_loop(
        jnp.int32(0), jnp.int32(pl.cdiv(classes, block)), part, (jnp.float32(-jnp.inf), zero, zero)
    )
    largest, total, chosen = carry
    for ref, value in ((maximum_ref, largest), (log_sum_ref, jnp.log(total)), (chosen_ref, chosen)):
        ref[0] = value


def _backward(
    logits_ref: Any,
    target_ref: Any,
    maximum_ref: Any,
    log_sum_ref: Any,
    factor_ref: Any,
    result_ref: Any,
    *,
    classes: int,
    block: int,
) -> None:
    columns = index(block, second() * block)
    kept = columns < classes
    x = triton.load(logits_ref.at[:], mask=kept, other=0.0).astype(jnp.float32)
    probability = jnp.exp((x - maximum_ref[0]) - log_sum_ref[0])
    own = jnp.where(columns == target_ref[0], 1.0, 0.0)
    gradient = (probability - own) * factor_ref[0]
    triton.store(result_ref.at[:], gradient.astype(result_ref.dtype), mask=kept)


def _classes(target: Array, classes: int) -> Array:
    """Classes in i32; -1 for those out of range, which i32 may not hold."""
    return jnp.where((target >= 0) & (target < classes), target, -1).astype(jnp.int32)


def _counted(target: Array, classes: int, ignore_index: int) -> Array:
    return (target >= 0) & (target < classes) & (target != ignore_index)


def _count(counted: Array) -> Array:
    return jnp.sum(counted.astype(jnp.float32))


def _check(logits: Array, target: Array, weight: Array | None, label_smoothing: float) -> None:
    check_floats(logits)
    if logits.ndim != 2 or target.ndim != 1 or not jnp.issubdtype(target.dtype, jnp.integer):
        raise UnsupportedCallError("takes logits of two dimensions, and classes")
    if weight is not None or label_smoothing != 0:
        raise UnsupportedCallError("takes no weights of classes and no label smoothing")
