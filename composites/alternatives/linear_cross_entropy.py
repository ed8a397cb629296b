"""The last linear layer and its loss, in blocks of classes, which never holds all logits.

After Wijmans et al., "Cut Your Losses in Large-Vocabulary Language Models" (2024). The forward
computes the logits of one block of classes at a time, and keeps the maximum and the sum of
exponentials of each row so far. The backward computes each block, and its part of the gradients,
again. Each block of the weight's gradient is written once, so nothing of the weight's size is held
in f32 beside it.

The dimensions of the rows stay apart: merged, they could not be sharded apart. Products and sums
are in f32, also where the operands are bf16.
"""

from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array, lax

from composites.operators.aten_enums import MEAN, SUM

LOGITS = 2**21
"""About how many logits of a block there are: 8 MB in f32."""
CLASSES = 128
"""The fewest classes of a block."""


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
        The loss; the maximum of each row, and the logarithm of its sum of exp(logit - maximum),
        both `[…]`. All are f32.
    """
    blocks = _Blocks.split(input, weight, target, bias)

    def of_block(number: Array, done: tuple[Array, ...]) -> tuple[Array, ...]:
        maxima, exponentials, chosen, total = done
        logits, fresh = blocks.logits(number)
        counted = jnp.where(fresh, logits, -jnp.inf)
        new = jnp.maximum(maxima, counted.max(-1))
        shift = jnp.where(new == -jnp.inf, 0, new)  # nothing but minus infinity so far
        exponentials = exponentials * jnp.exp(maxima - shift)
        exponentials = exponentials + jnp.exp(counted - shift[..., None]).sum(-1)
        place, is_here = blocks.place(number)
        of_class = jnp.take_along_axis(logits, place[..., None], -1)[..., 0]
        chosen = jnp.where(is_here, of_class, chosen)
        if label_smoothing:
            total = total + jnp.where(fresh, logits, 0).sum(-1)
        return new, exponentials, chosen, total

    zeros = jnp.zeros(target.shape, jnp.float32)
    start = (jnp.full(target.shape, -jnp.inf, jnp.float32), zeros, zeros, zeros)
    maxima, exponentials, chosen, total = lax.fori_loop(0, blocks.count, of_block, start)
    log_sums = jnp.log(exponentials)

    kept, counted = _rows_of_targets(target, weight.shape[0], ignore_index)
    losses = jnp.where(counted, maxima - chosen + log_sums, 0)
    loss = _reduced(losses, counted, reduction)
    if label_smoothing:
        smooth = maxima - total / weight.shape[0] + log_sums
        smooth = _reduced(jnp.where(kept, smooth, 0), kept, reduction)
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
    """The gradients of input, weight and bias. The arguments are those of `in_classes`, and its
    saved values."""
    blocks = _Blocks.split(input, weight, target, bias)
    kept, counted = _rows_of_targets(target, weight.shape[0], ignore_index)
    grad = grad_output.astype(jnp.float32)
    factor = jnp.where(counted, _shared(grad, counted, reduction), 0)
    factor = (1 - label_smoothing) * factor
    smooth = jnp.where(kept, _shared(grad, kept, reduction), 0) * label_smoothing
    sums, each = factor + smooth, smooth / weight.shape[0]

    def of_block(number: Array, done: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        grad_input, grad_weight, grad_bias = done
        logits, fresh = blocks.logits(number)
        logs = logits - maxima[..., None] - log_sums[..., None]
        grads = jnp.exp(logs) * sums[..., None]
        if label_smoothing:
            grads = grads - each[..., None]
        place, is_here = blocks.place(number)
        log = jnp.take_along_axis(logs, place[..., None], -1)[..., 0]
        # Precise where the probability is nearly 1.
        of_class = factor * jnp.expm1(log) + smooth * jnp.exp(log) - each
        is_class = is_here[..., None] & (jnp.arange(blocks.size) == place[..., None])
        grads = jnp.where(is_class, of_class[..., None], grads)
        # A row that does not count has no gradient, also where its logits are not finite.
        grads = jnp.where(kept[..., None], grads, 0)
        grads = grads.astype(input.dtype).astype(jnp.float32)  # stock rounds this gradient too

        added = _product("...c,ch->...h", jnp.where(fresh, grads, 0), blocks.weight_rows(number))
        of_weight = _product("...c,...h->ch", grads, blocks.input).astype(weight.dtype)
        of_bias = grads.sum(tuple(range(target.ndim))).astype(grad_bias.dtype)
        start = blocks.start(number)
        return (
            grad_input + added,
            lax.dynamic_update_slice_in_dim(grad_weight, of_weight, start, 0),
            lax.dynamic_update_slice_in_dim(grad_bias, of_bias, start, 0),
        )

    zeros = jnp.zeros(input.shape, jnp.float32)
    of_bias = jnp.zeros(weight.shape[0], weight.dtype)
    start = (zeros, jnp.zeros(weight.shape, weight.dtype), of_bias)
    grad_input, grad_weight, grad_bias = lax.fori_loop(0, blocks.count, of_block, start)
    return grad_input.astype(input.dtype), grad_weight, None if bias is None else grad_bias


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Classes, in blocks of one size. The last block overlaps the one before it."""

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
        # XLA's runtime for the CPU refuses products of narrower types in loops.
        return cls(input.astype(jnp.float32), weight, target, bias, count, size)

    def start(self, number: Array) -> Array:
        return jnp.minimum(number * self.size, self.weight.shape[0] - self.size)

    def weight_rows(self, number: Array) -> Array:
        """The weight's rows of a block, in f32."""
        rows = lax.dynamic_slice_in_dim(self.weight, self.start(number), self.size, 0)
        return rows.astype(jnp.float32)

    def logits(self, number: Array) -> tuple[Array, Array]:
        """`[…, size]`, and which of these classes are in no earlier block."""
        logits = _product("...h,ch->...c", self.input, self.weight_rows(number))
        start = self.start(number)
        if self.bias is not None:
            bias = lax.dynamic_slice_in_dim(self.bias, start, self.size, 0)
            logits = logits + bias.astype(jnp.float32)
        return logits, start + jnp.arange(self.size) >= number * self.size

    def place(self, number: Array) -> tuple[Array, Array]:
        """The place in a block of each row's class, and whether the class is in the block."""
        place = self.target - self.start(number)
        is_here = (place >= 0) & (place < self.size)
        return jnp.where(is_here, place, 0), is_here


def _rows_of_targets(target: Array, classes: int, ignore_index: int) -> tuple[Array, Array]:
    """The rows that smoothing counts, and those that the loss counts: stock leaves out classes that
    do not exist, and its smoothing does not."""
    kept = target != ignore_index
    return kept, kept & (target >= 0) & (target < classes)


def _reduced(losses: Array, counted: Array, reduction: int) -> Array:
    if reduction == MEAN:
        return losses.sum() / counted.astype(jnp.float32).sum()
    return losses.sum() if reduction == SUM else losses


def _shared(grad: Array, counted: Array, reduction: int) -> Array:
    """Each row's part of a loss's gradient. The mean of no row has the gradient 0."""
    if reduction == MEAN:
        grad = grad / jnp.maximum(counted.astype(jnp.float32).sum(), 1)
    return jnp.broadcast_to(grad, counted.shape)


def _product(form: str, a: Array, b: Array) -> Array:
    return jnp.einsum(form, a, b, preferred_element_type=jnp.float32)
