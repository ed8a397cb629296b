"""The last linear layer and its loss, in blocks of classes, without holding all logits.

After Wijmans et al., "Cut Your Losses in Large-Vocabulary Language Models" (2024). The forward
computes the logits of one block of classes at a time, and keeps the running maximum and sum of
exponentials of each row. The backward recomputes each block, and computes its part of the
gradients. Each block of the weight's gradient is written once, so no other tensor of the weight's
size is held in f32.

The dimensions of the rows stay separate: merged, they could not be sharded independently. Products
and sums are in f32, even if the operands are bf16.
"""

from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array, lax

from composites.alternatives.losses import reduced
from composites.operators.aten_enums import MEAN

LOGITS = 2**21
"""The approximate number of logits in a block: 8 MB in f32."""
CLASSES = 128
"""The smallest number of classes in a block."""


def in_classes(
    input: Array,
    weight: Array,
    target: Array,
    bias: Array | None = None,
    reduction: int = MEAN,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> tuple[Array, Array, Array]:
    """The loss of `linear(input, weight, bias)`.

    Args:
        input: `[…, H]`.
        weight: `[C, H]`; `bias`: `[C]`.
        target: `[…]`, classes.

    Returns:
        The loss, and for each row the maximum and the logarithm of the sum of exp(logit - maximum),
        both `[…]`. All are f32.
    """
    blocks = _Blocks.split(input, weight, target, bias)

    def add_block(number: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
        maxima, exponentials, chosen, total = state
        logits, fresh = blocks.logits(number)
        counted = jnp.where(fresh, logits, -jnp.inf)
        new = jnp.maximum(maxima, counted.max(-1))
        shift = jnp.where(new == -jnp.inf, 0, new)  # if all logits so far are minus infinity
        exponentials = exponentials * jnp.exp(maxima - shift)
        exponentials = exponentials + jnp.exp(counted - shift[..., None]).sum(-1)
        column, is_inside = blocks.column(number)
        logit = jnp.take_along_axis(logits, column[..., None], -1)[..., 0]
        chosen = jnp.where(is_inside, logit, chosen)
        if label_smoothing:
            total = total + jnp.where(fresh, logits, 0).sum(-1)
        return new, exponentials, chosen, total

    zeros = jnp.zeros(target.shape, jnp.float32)
    start = (jnp.full(target.shape, -jnp.inf, jnp.float32), zeros, zeros, zeros)
    maxima, exponentials, chosen, total = lax.fori_loop(0, blocks.count, add_block, start)
    log_sums = jnp.log(exponentials)

    kept, counted = _rows_of_targets(target, weight.shape[0], ignore_index)
    losses = jnp.where(counted, maxima - chosen + log_sums, 0)
    loss = reduced(losses, counted, reduction)
    if label_smoothing:
        smooth = maxima - total / weight.shape[0] + log_sums
        smooth = reduced(jnp.where(kept, smooth, 0), kept, reduction)
        loss = (1 - label_smoothing) * loss + label_smoothing * smooth
    return loss, maxima, log_sums


def in_classes_backward(
    grad_output: Array,
    input: Array,
    weight: Array,
    target: Array,
    bias: Array | None,
    maxima: Array,
    log_sums: Array,
    reduction: int,
    ignore_index: int,
    label_smoothing: float,
) -> tuple[Array, Array, Array | None]:
    """The gradients of input, weight and bias, from the arguments and saved values of
    `in_classes`."""
    blocks = _Blocks.split(input, weight, target, bias)
    kept, counted = _rows_of_targets(target, weight.shape[0], ignore_index)
    grad = grad_output.astype(jnp.float32)
    factor = jnp.where(counted, _shared(grad, counted, reduction), 0)
    factor = (1 - label_smoothing) * factor
    smooth = jnp.where(kept, _shared(grad, kept, reduction), 0) * label_smoothing
    sums, smooth_part = factor + smooth, smooth / weight.shape[0]

    def add_block(number: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        grad_input, grad_weight, grad_bias = state
        logits, fresh = blocks.logits(number)
        logs = logits - maxima[..., None] - log_sums[..., None]
        grads = jnp.exp(logs) * sums[..., None]
        if label_smoothing:
            grads = grads - smooth_part[..., None]
        column, is_inside = blocks.column(number)
        log = jnp.take_along_axis(logs, column[..., None], -1)[..., 0]
        # `expm1` is precise for a probability of nearly 1.
        grad_class = factor * jnp.expm1(log) + smooth * jnp.exp(log) - smooth_part
        is_class = is_inside[..., None] & (jnp.arange(blocks.size) == column[..., None])
        grads = jnp.where(is_class, grad_class[..., None], grads)
        # A row that does not count has a zero gradient, even if its logits are not finite.
        grads = jnp.where(kept[..., None], grads, 0)
        grads = grads.astype(input.dtype).astype(jnp.float32)  # as the stock lowering rounds it

        added = _product("...c,ch->...h", jnp.where(fresh, grads, 0), blocks.weight_rows(number))
        weight_block = _product("...c,...h->ch", grads, blocks.input).astype(weight.dtype)
        bias_block = grads.sum(tuple(range(target.ndim))).astype(grad_bias.dtype)
        start = blocks.start(number)
        return (
            grad_input + added,
            lax.dynamic_update_slice_in_dim(grad_weight, weight_block, start, 0),
            lax.dynamic_update_slice_in_dim(grad_bias, bias_block, start, 0),
        )

    zeros = jnp.zeros(input.shape, jnp.float32)
    zero_bias = jnp.zeros(weight.shape[0], weight.dtype)
    start = (zeros, jnp.zeros(weight.shape, weight.dtype), zero_bias)
    grad_input, grad_weight, grad_bias = lax.fori_loop(0, blocks.count, add_block, start)
    return grad_input.astype(input.dtype), grad_weight, None if bias is None else grad_bias


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Classes in blocks of equal size. The last block overlaps the block before it."""

    input: Array
    """`[…, H]`, f32."""
    weight: Array
    target: Array
    bias: Array | None
    count: int
    size: int

    @classmethod
    def split(cls, input: Array, weight: Array, target: Array, bias: Array | None) -> "_Blocks":
        classes = weight.shape[0]
        count = -(-classes // max(CLASSES, LOGITS // target.size))
        size = -(-classes // count)
        # XLA's CPU runtime rejects products of narrower types in loops.
        return cls(input.astype(jnp.float32), weight, target, bias, count, size)

    def start(self, number: Array) -> Array:
        return jnp.minimum(number * self.size, self.weight.shape[0] - self.size)

    def weight_rows(self, number: Array) -> Array:
        """Return the rows of the weight for a block, in f32."""
        rows = lax.dynamic_slice_in_dim(self.weight, self.start(number), self.size, 0)
        return rows.astype(jnp.float32)

    def logits(self, number: Array) -> tuple[Array, Array]:
        """Return the logits `[…, size]` of a block, and a mask of classes not in earlier blocks."""
        logits = _product("...h,ch->...c", self.input, self.weight_rows(number))
        start = self.start(number)
        if self.bias is not None:
            bias = lax.dynamic_slice_in_dim(self.bias, start, self.size, 0)
            logits = logits + bias.astype(jnp.float32)
        return logits, start + jnp.arange(self.size) >= number * self.size

    def column(self, number: Array) -> tuple[Array, Array]:
        """Return the column of each row's class in a block, and whether the class is in it."""
        column = self.target - self.start(number)
        is_inside = (column >= 0) & (column < self.size)
        return jnp.where(is_inside, column, 0), is_inside


def _rows_of_targets(target: Array, classes: int, ignore_index: int) -> tuple[Array, Array]:
    """Return masks of the rows that count for smoothing and for the loss. The loss of the stock
    lowering leaves out classes that do not exist, but its smoothing does not."""
    kept = target != ignore_index
    return kept, kept & (target >= 0) & (target < classes)


def _shared(grad: Array, counted: Array, reduction: int) -> Array:
    """Return each row's part of the loss's gradient. The mean of no rows has the gradient 0."""
    if reduction == MEAN:
        grad = grad / jnp.maximum(counted.astype(jnp.float32).sum(), 1)
    return jnp.broadcast_to(grad, counted.shape)


def _product(form: str, a: Array, b: Array) -> Array:
    return jnp.einsum(form, a, b, preferred_element_type=jnp.float32)
