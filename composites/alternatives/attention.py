"""Attention in blocks of queries and keys, forward and backward, without holding all scores.

Dao et al., "FlashAttention" (2022), and Rabe and Staats, "Self-attention Does Not Need O(n^2)
Memory" (2021). The scores of one block of queries and one block of keys are computed at a time. The
forward keeps the running maximum and sum of exponentials of each row. The backward recomputes the
probabilities, from `log_sum_exp` if rows have several blocks of keys. Blocks that `is_causal` masks
completely are skipped.

A `log_sum_exp` of 1,000 has an error of up to 3e-5 in f32, and so do the probabilities of its row,
as in PyTorch's flash attention. Rows with few keys need more precision: their gradients are
differences of nearly equal numbers, so both numbers are computed from the same probabilities.

A score has the same bits forward and backward, or a probability of 1 would have the rounding error
of a large score. So sizes of blocks are multiples of `VECTOR` where the backward reads
`log_sum_exp`: XLA's products on the CPU add up the last rows of other matrices in another order.

Batch and heads stay separate dimensions: merged, they could not be sharded independently. Heads of
queries that share a head of keys are another dimension, so keys are never repeated. Scores and sums
are in f32, even if the operands are bf16.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from composites.alternatives.attention_rows import f32, product
from composites.errors import UnsupportedCallError

T = TypeVar("T")

QUERIES, KEYS = 256, 256
"""The largest sizes of a block, whose scores fit in the cache of a CPU core."""

VECTOR = 16
"""The number of f32 in the widest vector register of a CPU."""

FEW = 32
"""The largest number of keys of a row that counts as a row with few keys."""


def blockwise(
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[Array, Array]:
    """`aten::scaled_dot_product_attention` without dropout, and its `log_sum_exp`.

    Args:
        query: `[…, Hq, L, E]`.
        key, value: `[…, H, S, E]` and `[…, H, S, Ev]`. H divides Hq if `enable_gqa`.
        attn_mask: bool (True takes part) or additive, broadcast to `[…, Hq, L, S]`.

    Returns:
        `[…, Hq, L, Ev]`, and `[…, Hq, L]` in f32. For a row that is masked completely, they are 0,
        as in PyTorch, and minus infinity.
    """
    call = _CallSizes.from_operands(query, key, is_causal, scale)
    q, k, v, mask = call.padded(query, key, value, attn_mask)
    size = v.shape[-1]

    # For each row: the sums of weighted values and of weights, and the running maximum of scores.
    # All are in one array, because XLA compiles more kernels for each array that a loop updates.
    column = np.arange(size + 2)
    # A column of ones in the values gives the sum of the weights.
    v = jnp.where(column == size, 1, _pad(v, -1, size + 2)).astype(v.dtype)

    def block(i: Array, j: Array, states: Array) -> Array:
        scores = call.scores(q, k, mask, i, j)
        before = call.rows_of(states, i, -2)
        highest, weights, factor = _shifted(scores, before[..., size + 1])
        values = _block(v, j, call.columns, -2)
        sums = before * factor[..., None] + product("...qk,...kd->...qd", weights, values)
        after = jnp.where(column == size + 1, highest[..., None], sums)
        return call.with_rows(states, after, i, -2)

    start = jnp.where(column == size + 1, -jnp.inf, jnp.zeros((*q.shape[:-1], 1), jnp.float32))
    states = call.each_block(block, start)
    exponentials = states[..., size]
    results = states[..., :size] / jnp.where(exponentials == 0, 1, exponentials)[..., None]
    # For a row that is masked completely, both terms are minus infinity.
    sums = states[..., size + 1] + jnp.log(exponentials)
    results = call.unpadded(results, size).astype(query.dtype)
    return results, call.unpadded(sums[..., None], 1)[..., 0]


def blockwise_backward(
    grad_output: Array,
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None,
    result: Array,
    log_sum_exp: Array,
    is_causal: bool,
    scale: float | None,
) -> tuple[Array, Array, Array]:
    """The gradients of query, key and value. For the arguments see `blockwise`.

    Scores have keys before queries. With queries first, two of the five products contract the first
    dimension of both operands, which is half as fast with XLA on the CPU. With keys first, only one
    does. The gradient of the queries is accumulated in blocks, because its last dimension is the
    queries, of which a partial update would not be contiguous. A block is flattened to one
    dimension: XLA's code for its update is half as long as with two.
    """
    call = _CallSizes.from_operands(query, key, is_causal, scale)
    q, k, v, mask = call.padded(query, key, value, attn_mask)
    grads, results = call.queries(grad_output), call.queries(result)
    normalizers = None if call.key_blocks == 1 else call.normalizers(q, k, mask, log_sum_exp)
    products = (f32(grads) * f32(results)).sum(-1)

    Gradients = tuple[Array, Array, Array]

    def block(i: Array, j: Array, state: Gradients) -> Gradients:
        grad_query, grad_key, grad_value = state
        queries, gradients = (f32(call.rows_of(x, i, -2)) for x in (q, grads))
        keys, values = (f32(_block(x, j, call.columns, -2)) for x in (k, v))
        products_of_keys = product("...kd,...qd->...kq", keys, queries)
        scores = call.masked(products_of_keys, mask, i, j, keys_first=True)
        grad_weights = product("...kd,...qd->...kq", values, gradients)
        if normalizers is None:
            weights = jnp.exp(scores - _finite(scores.max(-2))[..., None, :])
            factor = _inverse(weights.sum(-2))
            sums = (weights * grad_weights).sum(-2) * factor
        else:
            shift, factor = (call.rows_of(x, i, -1) for x in normalizers)
            weights = jnp.exp(scores - shift[..., None, :])
            sums = call.sums_of_products(i, products, weights, grad_weights)
        differences = weights * (grad_weights - sums[..., None, :])
        grad_scores = differences * (factor * call.factor)[..., None, :]
        grad_queries = product("...kd,...kq->...dq", keys, grad_scores)
        added = (
            grad_queries.reshape(*call.heads, -1),
            product("...kq,...qd->...kd", grad_scores, queries),
            product("...kq,...qd->...kd", weights, gradients * factor[..., None]),
        )
        return (
            _with_block(grad_query, _block(grad_query, i, 1, 0) + added[0], i, 0),
            _with_block(grad_key, _block(grad_key, j, call.columns, -2) + added[1], j, -2),
            _with_block(grad_value, _block(grad_value, j, call.columns, -2) + added[2], j, -2),
        )

    block_shape = query.shape[-1], call.group * call.rows
    start = (
        jnp.zeros((call.query_blocks, *call.heads, math.prod(block_shape)), jnp.float32),
        jnp.zeros(k.shape, jnp.float32),
        jnp.zeros(v.shape, jnp.float32),
    )
    grad_query, grad_key, grad_value = call.each_block(block, start)
    grad_query = call.joined(grad_query.reshape(*grad_query.shape[:-1], *block_shape))
    return (
        call.unpadded(grad_query, query.shape[-1]).astype(query.dtype),
        grad_key[..., : key.shape[-2], :].astype(key.dtype),
        grad_value[..., : value.shape[-2], :].astype(value.dtype),
    )


@dataclass(frozen=True)
class _CallSizes:
    """The sizes of a call. L and S are padded to whole blocks."""

    heads: tuple[int, ...]
    """The dimensions of keys before S: batch and heads."""
    group: int
    """The number of heads of queries that share a head of keys."""
    length: int
    """L."""
    keys: int
    """S."""
    factor: float
    is_causal: bool

    @classmethod
    def from_operands(
        cls, query: Array, key: Array, is_causal: bool, scale: float | None
    ) -> "_CallSizes":
        heads = key.shape[:-2]
        group = query.shape[-3] // key.shape[-3]
        factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
        return cls(heads, group, query.shape[-2], key.shape[-2], factor, is_causal)

    @cached_property
    def rows(self) -> int:
        """The number of queries in a block."""
        # The products of one query are added up alike in both directions.
        can_have_any_size = self.key_blocks == 1 or self.length == 1
        return _size(self.length, QUERIES, 1 if can_have_any_size else VECTOR)

    @cached_property
    def columns(self) -> int:
        """The number of keys in a block."""
        return _size(self.keys, KEYS, 1 if self.keys <= KEYS else VECTOR)

    @property
    def query_blocks(self) -> int:
        return -(-self.length // self.rows)

    @property
    def key_blocks(self) -> int:
        return -(-self.keys // self.columns)

    def padded(
        self, query: Array, key: Array, value: Array, mask: Array | None
    ) -> tuple[Array, Array, Array, Array | None]:
        """Pad the operands to whole blocks. Queries become `[…, H, group, L, E]`, and the mask can
        be broadcast to `[…, H, group, L, S]`."""
        k, v = (_pad(x, -2, self.key_blocks * self.columns) for x in (key, value))
        return self.queries(query), k, v, None if mask is None else self._mask(mask)

    def queries(self, array: Array, padding: float = 0) -> Array:
        """Reshape `[…, Hq, L, E]` to `[…, H, group, L, E]`, and pad L."""
        split = array.reshape(*self.heads, self.group, *array.shape[-2:])
        return _pad(split, -2, self.query_blocks * self.rows, padding)

    def unpadded(self, array: Array, last: int) -> Array:
        """Reshape `[…, H, group, L, E]` to `[…, Hq, L, E]`, without padding."""
        *batch, heads = self.heads
        cut = array[..., : self.length, :]
        return cut.reshape(*batch, heads * self.group, self.length, last)

    def _mask(self, mask: Array) -> Array:
        *batch, heads = self.heads
        whole = (*batch, heads * self.group, self.length, self.keys)
        if not _fits(mask.shape, whole):
            raise UnsupportedCallError("the mask has more dimensions, or larger ones, than scores")
        mask = mask.reshape((1,) * (len(whole) - mask.ndim) + mask.shape)
        group = 1 if mask.shape[-3] == 1 else self.group  # 1: the same for all heads
        mask = mask.reshape(*mask.shape[:-3], -1, group, *mask.shape[-2:])
        if mask.shape[-2] > 1:
            mask = _pad(mask, -2, self.query_blocks * self.rows)
        if mask.shape[-1] > 1:
            mask = _pad(mask, -1, self.key_blocks * self.columns)
        return mask

    def normalizers(
        self, q: Array, k: Array, mask: Array | None, log_sum_exp: Array
    ) -> tuple[Array, Array]:
        """Compute a shift and a factor per row: a probability is `exp(score - shift) * factor`.

        `log_sum_exp` is enough, except if a mask adds numbers: if all scores of a row are about
        -1e4, or the lowest finite number, rounding has removed the sum from it.
        """
        if mask is None or mask.dtype == jnp.bool_:
            sums = self.queries(log_sum_exp[..., None], -jnp.inf)[..., 0]
            # In a row without exponentials, every probability is exp(-inf - inf) = 0.
            return jnp.where(jnp.isneginf(sums), jnp.inf, sums), jnp.ones_like(sums)

        def block(i: Array, j: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
            maxima, sums = state
            before = self.rows_of(maxima, i, -1)
            highest, weights, factor = _shifted(self.scores(q, k, mask, i, j), before)
            total = self.rows_of(sums, i, -1) * factor + weights.sum(-1)
            return self.with_rows(maxima, highest, i, -1), self.with_rows(sums, total, i, -1)

        start = (
            jnp.full(q.shape[:-1], -jnp.inf, jnp.float32),
            jnp.zeros(q.shape[:-1], jnp.float32),
        )
        maxima, sums = self.each_block(block, start)
        return _finite(maxima), _inverse(sums)

    def scores(self, q: Array, k: Array, mask: Array | None, i: Array, j: Array) -> Array:
        """Compute the masked scores of block `i` of the queries and block `j` of the keys, in f32:
        `[…, H, group * queries, keys]`."""
        queries, keys = self.rows_of(q, i, -2), _block(k, j, self.columns, -2)
        products = product("...qd,...kd->...qk", queries, keys)
        return self.masked(products, mask, i, j, keys_first=False)

    def masked(
        self, products: Array, mask: Array | None, i: Array, j: Array, *, keys_first: bool
    ) -> Array:
        """Mask the scores of block `i` of the queries and block `j` of the keys.

        Args:
            products: the products of queries and keys: `[…, H, group * queries, keys]`, or
                `[…, H, keys, group * queries]` with `keys_first`.
        """
        scores = products * self.factor
        row, column = jnp.tile(_numbers(i, self.rows), self.group), _numbers(j, self.columns)
        row, column = (row, column[:, None]) if keys_first else (row[:, None], column)
        if self.is_causal:
            scores = jnp.where(column <= row, scores, -jnp.inf)
        if self.keys % self.columns:
            scores = jnp.where(column < self.keys, scores, -jnp.inf)
        if mask is None:
            return scores
        part = mask if mask.shape[-2] == 1 else _block(mask, i, self.rows, -2)
        part = part if mask.shape[-1] == 1 else _block(part, j, self.columns, -1)
        part = jnp.broadcast_to(part, (*part.shape[:-3], self.group, self.rows, part.shape[-1]))
        part = part.reshape(*part.shape[:-3], self.group * self.rows, part.shape[-1])
        part = jnp.swapaxes(part, -1, -2) if keys_first else part
        if part.dtype == jnp.bool_:
            return jnp.where(part, scores, -jnp.inf)
        return scores + part.astype(jnp.float32)

    def sums_of_products(
        self, i: Array, products: Array, weights: Array, grad_weights: Array
    ) -> Array:
        """Sum probabilities times their gradients, for each row of a block.

        This equals the sum of the result times its gradient. But in a row with few keys, the
        difference from this sum nearly cancels, and the rounding errors must cancel too. So for the
        first rows of causal attention, the products of weights themselves are added.

        Args:
            products: the sums of the result times its gradient: `[…, H, group, L]`.
            weights: probabilities, up to a factor for each row: `[…, H, keys, group * queries]`.
            grad_weights: the gradients of probabilities, of the same shape.
        """
        sums = self.rows_of(products, i, -1)
        if not self.is_causal:
            return sums
        few = min(FEW, self.rows, self.columns)

        def sum_of_few(x: Array) -> Array:
            whole = x.reshape(*x.shape[:-1], self.group, self.rows)
            return whole[..., :few, :, :few].sum(-3)

        exact = sum_of_few(weights * grad_weights) * _inverse(sum_of_few(weights))
        exact = _pad(exact, -1, self.rows).reshape(sums.shape)
        row = jnp.tile(_numbers(i, self.rows), self.group)
        return jnp.where(row < few, exact, sums)

    def joined(self, blocks: Array) -> Array:
        """Join `[blocks, …, H, E, group * queries]` to `[…, H, group, L, E]`, padded."""
        split = blocks.reshape(*blocks.shape[:-1], self.group, self.rows)
        rank = split.ndim
        order = *range(1, rank - 3), rank - 2, 0, rank - 1, rank - 3
        whole = split.transpose(order)
        return whole.reshape(*whole.shape[:-3], -1, whole.shape[-1])

    def rows_of(self, array: Array, i: Array, axis: int) -> Array:
        """Select block `i` of an array with dimensions group and L, and merge the two dimensions.

        Products then have one dimension of rows. For products with more, XLA transposes operands.
        """
        block = _block(array, i, self.rows, axis)
        merged = self.group * self.rows
        after = block.shape[axis + 1 :] if axis < -1 else ()
        return block.reshape(*block.shape[: axis - 1], merged, *after)

    def with_rows(self, array: Array, rows: Array, i: Array, axis: int) -> Array:
        """Replace block `i`, the inverse of `rows_of`."""
        after = rows.shape[axis + 1 :] if axis < -1 else ()
        block = rows.reshape(*rows.shape[:axis], self.group, self.rows, *after)
        return _with_block(array, block, i, axis)

    def each_block(self, block: Callable[[Array, Array, T], T], start: T) -> T:
        """Run a function of `i`, `j` and a state for all blocks of queries and keys, except for
        blocks that `is_causal` masks, and return the last state.

        One counter of one loop holds `i` in its upper half and `j` in its lower half, because XLA
        compiles a kernel for each counter.
        """

        def step(state: tuple[Array, T]) -> tuple[Array, T]:
            both, inner = state
            i, j = both >> 16, both & 0xFFFF
            following = jnp.where(j + 1 < self.last_keys(i), both + 1, (i + 1) << 16)
            return following, block(i, j, inner)

        end = self.query_blocks << 16
        first = jnp.int32(0), start
        last: tuple[Array, T] = lax.while_loop(lambda state: state[0] < end, step, first)
        return last[1]

    def last_keys(self, i: Array) -> Array | int:
        """Return the number of blocks of keys that block `i` of the queries reads."""
        if not self.is_causal:
            return self.key_blocks
        return jnp.minimum(((i + 1) * self.rows - 1) // self.columns + 1, self.key_blocks)


def _fits(shape: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    """Return whether an array of a shape can be broadcast to another shape."""
    pairs = zip(reversed(shape), reversed(whole), strict=False)
    return len(shape) <= len(whole) and all(size in (1, other) for size, other in pairs)


def _size(length: int, largest: int, unit: int) -> int:
    """Return the size of nearly equal blocks, at most `largest`, a multiple of `unit`."""
    blocks = max(-(-length // largest), 1)
    return max(-(-length // (blocks * unit)), 1) * unit


def _pad(array: Array, axis: int, size: int, padding: float = 0) -> Array:
    missing = size - array.shape[axis]
    if not missing:
        return array
    widths = [(0, 0)] * array.ndim
    widths[axis] = (0, missing)
    return jnp.pad(array, widths, constant_values=padding)


def _block(array: Array, number: Array, size: int, axis: int) -> Array:
    return lax.dynamic_slice_in_dim(
        array, number * size, size, axis % array.ndim, allow_negative_indices=False
    )


def _with_block(array: Array, block: Array, number: Array, axis: int) -> Array:
    start = number * block.shape[axis]
    return lax.dynamic_update_slice_in_dim(
        array, block, start, axis % array.ndim, allow_negative_indices=False
    )


def _numbers(block: Array, size: int) -> Array:
    """Return the indices of the rows or columns of a block."""
    return jnp.int32(block) * size + jnp.arange(size, dtype=jnp.int32)


def _shifted(scores: Array, highest: Array) -> tuple[Array, Array, Array]:
    """Return the running maximum of each row, the exponentials of scores relative to it, and the
    factor for the exponentials of earlier blocks."""
    new = _maxima(scores, highest)
    safe = _finite(new)
    return new, jnp.exp(scores - safe[..., None]), jnp.exp(highest - safe)


def _finite(highest: Array) -> Array:
    """Replace a running maximum of minus infinity, of a row that is masked so far, by 0."""
    return jnp.where(jnp.isneginf(highest), 0, highest)


def _inverse(sums: Array) -> Array:
    """Return the inverse of each sum, or 0 for the sum 0 of a row that is masked completely."""
    return jnp.where(sums == 0, 0, 1 / jnp.where(sums == 0, 1, sums))


def _maxima(scores: Array, highest: Array) -> Array:
    """Return the maximum of each row of scores and the row's previous maximum."""
    size = scores.shape[-1]
    if size % 32:
        return jnp.maximum(highest, scores.max(-1))
    # XLA's CPU compiler splits a reduction of more than 32 elements in two, and fuses neither with
    # the computation of the elements.
    parts = scores.reshape(*scores.shape[:-1], size // 32, 32).max(-2)
    return jnp.maximum(parts, highest[..., None]).max(-1)
