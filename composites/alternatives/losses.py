"""Cross entropy in blocks of rows and classes, without other tensors of the logits' size.

The forward reads the logits once from memory: a block of rows stays in the cache for its maxima and
for its sums of exponentials. Both are saved, so the backward needs one pass of exponentials. Sums
are in f32, even if the logits are bf16.
"""

import jax.numpy as jnp
from jax import Array, lax

from composites.operators.aten_enums import MEAN, SUM

BLOCK = 2**18
"""The approximate number of logits in a block of short rows: 1 MB in f32."""
ROWS, CLASSES = 8, 2048
"""The number of rows in a block of long rows, and the number of classes added at a time."""


def cross_entropy_in_rows(
    self: Array,
    target: Array,
    weight: Array | None = None,
    reduction: int = MEAN,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> tuple[Array, Array, Array]:
    """`aten::cross_entropy_loss` of `[N, C]` logits and `[N]` classes.

    Returns:
        The loss, and for each row the maximum and the logarithm of the sum of exp(logit - maximum),
        in f32.
    """
    count, classes = self.shape
    size = _rows(count, classes)
    class_weights = _class_weights(weight, classes)

    def add_rows(number: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        maxima, log_sums, smooth = state
        start = jnp.minimum(number * size, count - size)
        rows = lax.dynamic_slice_in_dim(self, start, size, 0)
        largest, sums = _sums(rows)
        logs = jnp.log(sums)
        maxima = lax.dynamic_update_slice_in_dim(maxima, largest, start, 0)
        log_sums = lax.dynamic_update_slice_in_dim(log_sums, logs, start, 0)
        if label_smoothing:
            below = largest[:, None] - rows.astype(jnp.float32)  # exact for large logits
            smoothing = (class_weights * (below + logs[:, None])).sum(-1)
            smooth = lax.dynamic_update_slice_in_dim(smooth, smoothing, start, 0)
        return maxima, log_sums, smooth

    empty = jnp.zeros(count, jnp.float32)
    blocks = -(-count // size)
    maxima, log_sums, smooth = lax.fori_loop(0, blocks, add_rows, (empty, empty, empty))

    chosen = _class(target, classes, ignore_index)
    weights = _weights(chosen, weight)
    # Values of an ignored row do not count, even if they are not finite.
    losses = jnp.where(chosen < 0, 0, (maxima - _class_logits(self, chosen) + log_sums) * weights)
    loss = reduced(losses, weights, reduction)
    if label_smoothing:
        is_kept = target != ignore_index
        smooth = jnp.where(is_kept, smooth, 0) * (label_smoothing / classes)
        counts = is_kept if weight is None else weights
        loss = (1 - label_smoothing) * loss + reduced(smooth, counts, reduction)
    return loss.astype(self.dtype), maxima, log_sums


def cross_entropy_in_rows_backward(
    grad_output: Array,
    self: Array,
    target: Array,
    weight: Array | None,
    maxima: Array,
    log_sums: Array,
    reduction: int,
    ignore_index: int,
    label_smoothing: float,
) -> Array:
    """The gradient of the logits, from the arguments and saved values of `cross_entropy_in_rows`.

    The gradients of all logits are computed in one pass without a loop, which XLA runs in several
    threads. Then the gradients of the targets' logits are written, one in each row.
    """
    count, classes = self.shape
    chosen = _class(target, classes, ignore_index)
    weights = _weights(chosen, weight)
    is_kept = target != ignore_index
    grad = grad_output.astype(jnp.float32)
    grads = grad / weights.sum() if reduction == MEAN else grad
    # An ignored row has the gradient 0, even if the mean of no rows is NaN.
    factor = jnp.where(chosen < 0, 0, (1 - label_smoothing) * weights * grads)
    if reduction == MEAN:
        grads = grad / (is_kept if weight is None else weights).sum()
    smooth = jnp.where(is_kept, label_smoothing / classes * grads, 0)
    class_weights = _class_weights(weight, classes)
    total = factor + smooth * class_weights.sum() if label_smoothing else factor

    logs = self.astype(jnp.float32) - maxima[:, None] - log_sums[:, None]
    gradient = jnp.exp(logs) * total[:, None]
    if label_smoothing:
        gradient = gradient - smooth[:, None] * class_weights
    # Ignored rows have the gradient 0, even if they are not finite.
    gradient = jnp.where(is_kept[:, None], gradient, 0).astype(self.dtype)

    log = _class_logits(self, chosen) - maxima - log_sums
    grad_class = factor * jnp.expm1(log)  # precise for a probability of nearly 1
    if label_smoothing:
        grad_class = grad_class + (total - factor) * jnp.exp(log) - smooth * class_weights[chosen]
    rows = jnp.arange(count, dtype=jnp.int32)
    chosen = jnp.where(chosen < 0, classes, chosen)  # out of bounds, so it is dropped
    return gradient.at[rows, chosen].set(grad_class.astype(self.dtype), mode="drop")


def linear_cross_entropy_in_rows(
    input: Array,
    weight: Array,
    target: Array,
    bias: Array | None = None,
    reduction: int = MEAN,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> tuple[Array, Array, Array]:
    """`cross_entropy_in_rows` of `linear(input, weight, bias)`.

    Args:
        input: `[…, H]`, f32.
        weight: `[C, H]`; `bias`: `[C]`.
        target: `[…]`, classes.

    Returns:
        See `cross_entropy_in_rows`. Values for each row have the shape of `target`.
    """
    loss, maxima, log_sums = cross_entropy_in_rows(
        _logits(input, weight, bias),
        target.reshape(-1),
        None,
        reduction,
        ignore_index,
        label_smoothing,
    )
    losses = loss.reshape(target.shape) if loss.ndim else loss
    return losses, maxima.reshape(target.shape), log_sums.reshape(target.shape)


def linear_cross_entropy_in_rows_backward(
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
    `linear_cross_entropy_in_rows`.

    The logits are computed again; in one graph with the forward, XLA computes them once.
    """
    grads = cross_entropy_in_rows_backward(
        grad_output.reshape(-1) if grad_output.ndim else grad_output,
        _logits(input, weight, bias),
        target.reshape(-1),
        None,
        maxima.reshape(-1),
        log_sums.reshape(-1),
        reduction,
        ignore_index,
        label_smoothing,
    )
    grad_input = (grads @ weight).reshape(input.shape)
    grad_weight = grads.T @ input.reshape(-1, input.shape[-1])
    return grad_input, grad_weight, None if bias is None else grads.sum(0)


def _logits(input: Array, weight: Array, bias: Array | None) -> Array:
    logits = input.reshape(-1, input.shape[-1]) @ weight.T
    return logits if bias is None else logits + bias


def _sums(rows: Array) -> tuple[Array, Array]:
    """Return the maximum of each row, and the sum of exp(logit - maximum).

    In long rows, blocks of classes are added first, and then the columns of the sum, so that the
    exponentials are never held.
    """
    count, classes = rows.shape
    blocks = classes // CLASSES
    if blocks < 2:
        logits = rows.astype(jnp.float32)
        largest = logits.max(-1)
        return largest, jnp.exp(logits - largest[:, None]).sum(-1)

    def block(number: Array) -> Array:
        columns = lax.dynamic_slice_in_dim(rows, number * CLASSES, CLASSES, 1)
        return columns.astype(jnp.float32)

    rest = rows[:, blocks * CLASSES :].astype(jnp.float32)
    lowest = jnp.full((count, CLASSES), -jnp.inf, jnp.float32)
    maxima = lax.fori_loop(0, blocks, lambda n, m: jnp.maximum(m, block(n)), lowest)
    largest = maxima.max(-1)
    if rest.size:
        largest = jnp.maximum(largest, rest.max(-1))

    def add(number: Array, sums: Array) -> Array:
        return sums + jnp.exp(block(number) - largest[:, None])

    sums = lax.fori_loop(0, blocks, add, jnp.zeros((count, CLASSES), jnp.float32)).sum(-1)
    return largest, sums + jnp.exp(rest - largest[:, None]).sum(-1)


def _rows(count: int, classes: int) -> int:
    """Return the number of rows in a block. The last block overlaps the block before it."""
    rows = ROWS if classes >= 2 * CLASSES else max(1, BLOCK // classes)
    return min(count, rows)


def reduced(losses: Array, weights: Array, reduction: int) -> Array:
    """Reduce the losses of rows with these weights, or masks of the rows that count."""
    if reduction == MEAN:
        return losses.sum() / weights.sum()
    return losses.sum() if reduction == SUM else losses


def _class(target: Array, classes: int, ignore_index: int) -> Array:
    """Return the class of each row, or -1 for an ignored row and, as in the stock lowering, for a
    class that does not exist."""
    counted = (target != ignore_index) & (target >= 0) & (target < classes)
    return jnp.where(counted, target, -1).astype(jnp.int32)


def _class_logits(logits: Array, chosen: Array) -> Array:
    """Return the logit of each row's class, in f32; of class 0 for a row without a class."""
    column = jnp.maximum(chosen, 0)[:, None]
    return jnp.take_along_axis(logits, column, 1)[:, 0].astype(jnp.float32)


def _weights(chosen: Array, weight: Array | None) -> Array:
    """Return the weight of each row."""
    if weight is None:
        return (chosen >= 0).astype(jnp.float32)
    return jnp.where(chosen < 0, 0, weight[jnp.maximum(chosen, 0)].astype(jnp.float32))


def _class_weights(weight: Array | None, classes: int) -> Array:
    """Return the weight of each class."""
    return jnp.ones(classes, jnp.float32) if weight is None else weight.astype(jnp.float32)
