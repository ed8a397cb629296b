"""Cross entropy in blocks of rows and classes, which holds no other tensor of the logits' size.

The forward reads the logits once from memory: a block of rows stays in the cache for its maxima and
for its sums of exponentials. It keeps both, so the backward needs one pass of exponentials. Sums
are in f32, also where the logits are bf16.
"""

import jax.numpy as jnp
from jax import Array, lax

from composites.operators.aten_enums import MEAN, SUM

BLOCK = 2**18
"""About how many logits of a block of rows there are, where rows are short: 1 MB in f32."""
ROWS, CLASSES = 8, 2048
"""A block of long rows, and how many classes of it are added at a time."""


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
        The loss; the maximum of each row, and the logarithm of its sum of exp(logit - maximum), in
        f32.
    """
    count, classes = self.shape
    size = _rows(count, classes)
    of_all = _of_all(weight, classes)

    def of_rows(number: Array, done: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        maxima, log_sums, smooth = done
        start = jnp.minimum(number * size, count - size)
        rows = lax.dynamic_slice_in_dim(self, start, size, 0)
        largest, sums = _sums(rows)
        logs = jnp.log(sums)
        maxima = lax.dynamic_update_slice_in_dim(maxima, largest, start, 0)
        log_sums = lax.dynamic_update_slice_in_dim(log_sums, logs, start, 0)
        if label_smoothing:
            below = largest[:, None] - rows.astype(jnp.float32)  # exact where logits are large
            smoothing = (of_all * (below + logs[:, None])).sum(-1)
            smooth = lax.dynamic_update_slice_in_dim(smooth, smoothing, start, 0)
        return maxima, log_sums, smooth

    empty = jnp.zeros(count, jnp.float32)
    blocks = -(-count // size)
    maxima, log_sums, smooth = lax.fori_loop(0, blocks, of_rows, (empty, empty, empty))

    chosen = _class(target, classes, ignore_index)
    weights = _weights(chosen, weight)
    # Values of an ignored row do not count, even if they are not finite.
    losses = jnp.where(chosen < 0, 0, (maxima - _of_class(self, chosen) + log_sums) * weights)
    loss = _reduced(losses, weights, reduction)
    if label_smoothing:
        is_kept = target != ignore_index
        smooth = jnp.where(is_kept, smooth, 0) * (label_smoothing / classes)
        counts = is_kept if weight is None else weights
        loss = (1 - label_smoothing) * loss + _reduced(smooth, counts, reduction)
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
    """The gradient of the logits, from the arguments of `cross_entropy_in_rows` and its saved
    values.

    All but the gradients of the targets' logits is one pass without a loop, which XLA gives to
    several threads. The others are written afterwards, one in each row.
    """
    count, classes = self.shape
    chosen = _class(target, classes, ignore_index)
    weights = _weights(chosen, weight)
    is_kept = target != ignore_index
    grad = grad_output.astype(jnp.float32)
    grads = grad / weights.sum() if reduction == MEAN else grad
    # An ignored row has the gradient 0, also where the mean of no row is not a number.
    factor = jnp.where(chosen < 0, 0, (1 - label_smoothing) * weights * grads)
    if reduction == MEAN:
        grads = grad / (is_kept if weight is None else weights).sum()
    smooth = jnp.where(is_kept, label_smoothing / classes * grads, 0)
    of_all = _of_all(weight, classes)
    total = factor + smooth * of_all.sum() if label_smoothing else factor

    logs = self.astype(jnp.float32) - maxima[:, None] - log_sums[:, None]
    gradient = jnp.exp(logs) * total[:, None]
    if label_smoothing:
        gradient = gradient - smooth[:, None] * of_all
    # Also where the row is not finite.
    gradient = jnp.where(is_kept[:, None], gradient, 0).astype(self.dtype)

    log = _of_class(self, chosen) - maxima - log_sums
    of_class = factor * jnp.expm1(log)  # precise where the probability is nearly 1
    if label_smoothing:
        of_class = of_class + (total - factor) * jnp.exp(log) - smooth * of_all[chosen]
    places = jnp.arange(count, dtype=jnp.int32)
    chosen = jnp.where(chosen < 0, classes, chosen)  # nowhere
    return gradient.at[places, chosen].set(of_class.astype(self.dtype), mode="drop")


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
        As `cross_entropy_in_rows`; what is of a row has the shape of `target`.
    """
    loss, maxima, log_sums = cross_entropy_in_rows(
        _logits(input, weight, bias),
        target.reshape(-1),
        None,
        reduction,
        ignore_index,
        label_smoothing,
    )
    of_rows = loss.reshape(target.shape) if loss.ndim else loss
    return of_rows, maxima.reshape(target.shape), log_sums.reshape(target.shape)


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
    """The gradients of input, weight and bias. The arguments are those of
    `linear_cross_entropy_in_rows`, and its saved values.

    The logits are computed again. In one graph with the forward, XLA computes them once.
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
    of_input = (grads @ weight).reshape(input.shape)
    of_weight = grads.T @ input.reshape(-1, input.shape[-1])
    return of_input, of_weight, None if bias is None else grads.sum(0)


def _logits(input: Array, weight: Array, bias: Array | None) -> Array:
    logits = input.reshape(-1, input.shape[-1]) @ weight.T
    return logits if bias is None else logits + bias


def _sums(rows: Array) -> tuple[Array, Array]:
    """The maximum of each row, and its sum of exp(logit - maximum).

    Of long rows, all blocks of classes are added up before their columns are, so that the
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
    of_blocks = lax.fori_loop(0, blocks, lambda n, m: jnp.maximum(m, block(n)), lowest)
    largest = of_blocks.max(-1)
    if rest.size:
        largest = jnp.maximum(largest, rest.max(-1))

    def add(number: Array, sums: Array) -> Array:
        return sums + jnp.exp(block(number) - largest[:, None])

    sums = lax.fori_loop(0, blocks, add, jnp.zeros((count, CLASSES), jnp.float32)).sum(-1)
    return largest, sums + jnp.exp(rest - largest[:, None]).sum(-1)


def _rows(count: int, classes: int) -> int:
    """The rows of a block. The last block overlaps the one before it."""
    rows = ROWS if classes >= 2 * CLASSES else max(1, BLOCK // classes)
    return min(count, rows)


def _reduced(losses: Array, weights: Array, reduction: int) -> Array:
    if reduction == MEAN:
        return losses.sum() / weights.sum()
    return losses.sum() if reduction == SUM else losses


def _class(target: Array, classes: int, ignore_index: int) -> Array:
    """The class of each row; -1 for a row that is ignored, and, as in stock, for one whose class
    does not exist."""
    counted = (target != ignore_index) & (target >= 0) & (target < classes)
    return jnp.where(counted, target, -1).astype(jnp.int32)


def _of_class(logits: Array, chosen: Array) -> Array:
    """The logit of one class of each row, in f32; the first one where there is no class."""
    place = jnp.maximum(chosen, 0)[:, None]
    return jnp.take_along_axis(logits, place, 1)[:, 0].astype(jnp.float32)


def _weights(chosen: Array, weight: Array | None) -> Array:
    """The weight of each row."""
    if weight is None:
        return (chosen >= 0).astype(jnp.float32)
    return jnp.where(chosen < 0, 0, weight[jnp.maximum(chosen, 0)].astype(jnp.float32))


def _of_all(weight: Array | None, classes: int) -> Array:
    """The weight of each class."""
    return jnp.ones(classes, jnp.float32) if weight is None else weight.astype(jnp.float32)
