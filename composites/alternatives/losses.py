"""Cross entropy in blocks of rows, which has no second tensor of the size of the logits.

Each block is read once, stays in the cache for all that is computed of it, and of the backward each
block of the gradient is written once. Sums are in f32, also where the logits are bf16.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array, lax

BLOCK = 2**18
"""About how many logits of a block there are: 1 MB in f32."""

MEAN, SUM = 1, 2
"""Numbers of PyTorch's reductions; 0 is none."""


def cross_entropy_in_rows(
    self: Array,
    target: Array,
    weight: Array | None = None,
    reduction: int = MEAN,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Array:
    """`aten::cross_entropy_loss` of `[N, C]` logits and `[N]` classes."""
    count, classes = self.shape
    size = _rows(count, classes)
    weights = _weights(target, weight, ignore_index)

    def of_rows(number: Array, losses: Array) -> Array:
        start = jnp.minimum(number * size, count - size)
        logits = _slice(self, start, size)
        chosen = _slice(_class(target, ignore_index), start, size)
        largest = logits.max(-1)
        sums = largest + jnp.log(jnp.exp(logits - largest[:, None]).sum(-1))
        of_class = jnp.take_along_axis(logits, chosen[:, None], 1)[:, 0]
        loss = (sums - of_class) * _slice(weights, start, size)
        if label_smoothing:
            of_all = jnp.float32(1) if weight is None else weight.astype(jnp.float32)
            smooth = (of_all * (sums[:, None] - logits)).sum(-1) * (label_smoothing / classes)
            loss = (1 - label_smoothing) * loss + smooth
        # What an ignored row holds does not count, also if it is not finite.
        loss = jnp.where(_slice(target, start, size) == ignore_index, 0, loss)
        return lax.dynamic_update_slice_in_dim(losses, loss, start, 0)

    losses = lax.fori_loop(0, -(-count // size), of_rows, jnp.zeros(count, jnp.float32))
    if reduction == MEAN:
        return (losses.sum() / weights.sum()).astype(self.dtype)
    return (losses.sum() if reduction == SUM else losses).astype(self.dtype)


def cross_entropy_in_rows_backward(
    grad_output: Array,
    self: Array,
    target: Array,
    weight: Array | None,
    reduction: int,
    ignore_index: int,
    label_smoothing: float,
) -> Array:
    """The gradient of the logits. The arguments are those of `cross_entropy_in_rows`."""
    count, classes = self.shape
    size = _rows(count, classes)
    weights = _weights(target, weight, ignore_index)
    grad = grad_output.astype(jnp.float32)
    if reduction == MEAN:
        grad = grad / weights.sum()
    grads = jnp.broadcast_to(grad, (count,))
    # An ignored row has the gradient 0, also where the mean of no row is not a number.
    of_classes = jnp.where(target == ignore_index, 0, weights * grads)
    smoothing = label_smoothing / classes
    of_smooth = jnp.where(target == ignore_index, 0, smoothing * grads)
    of_all = jnp.ones(classes, jnp.float32) if weight is None else weight.astype(jnp.float32)

    def of_rows(number: Array, gradient: Array) -> Array:
        start = jnp.minimum(number * size, count - size)
        logits = _slice(self, start, size)
        chosen = _slice(_class(target, ignore_index), start, size)
        exponentials = jnp.exp(logits - logits.max(-1, keepdims=True))
        sums = exponentials.sum(-1)
        factor = (1 - label_smoothing) * _slice(of_classes, start, size)
        smooth = _slice(of_smooth, start, size)
        of_sums = factor + smooth * of_all.sum() if label_smoothing else factor
        found = exponentials * (of_sums / sums)[:, None]
        columns = jnp.arange(classes, dtype=jnp.int32)
        found = found - jnp.where(columns == chosen[:, None], factor[:, None], 0)
        if label_smoothing:
            found = found - smooth[:, None] * of_all
        return lax.dynamic_update_slice_in_dim(gradient, found.astype(self.dtype), start, 0)

    return lax.fori_loop(0, -(-count // size), of_rows, jnp.zeros_like(self))


def _rows(count: int, classes: int) -> int:
    """The rows of a block. The last block overlaps the one before it."""
    return max(1, min(count, BLOCK // classes))


def _class(target: Array, ignore_index: int) -> Array:
    """The class of each row; 0 for a row that is ignored."""
    return jnp.where(target == ignore_index, 0, target).astype(jnp.int32)


def _weights(target: Array, weight: Array | None, ignore_index: int) -> Array:
    """The weight of each row."""
    valid = target != ignore_index
    if weight is None:
        return valid.astype(jnp.float32)
    return jnp.where(valid, weight[_class(target, ignore_index)].astype(jnp.float32), 0)


def _slice(array: Array, start: Array, size: int) -> Array:
    block = lax.dynamic_slice_in_dim(array, start, size, 0)
    return block.astype(jnp.float32) if jnp.issubdtype(array.dtype, jnp.floating) else block
