"""Attention in blocks of queries and keys, forward and backward, which never holds all scores.

Dao et al., "FlashAttention" (2022), and Rabe and Staats, "Self-attention Does Not Need O(n^2)
Memory" (2021). The scores of one block of queries and one block of keys are computed at a time. The
forward keeps for each row the maximum and the sum of exponentials so far; the backward computes the
probabilities again, from `log_sum_exp` where rows have several blocks of keys. Blocks that
`is_causal` masks completely are skipped.

A `log_sum_exp` of 1,000 has an error of up to 3e-5 in f32, and so have the probabilities of its
row, as in PyTorch's flash attention. Rows of few keys need more: their gradients are differences of
numbers that nearly cancel, so both numbers are computed from the same probabilities.

Batch and heads stay dimensions of their own: merged, they could not be sharded apart. Heads of
queries that share a head of keys are a dimension too, so keys are never repeated. Scores and sums
are in f32, also where the operands are bf16.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from composites.alternatives.products import f32, product
from composites.errors import UnsupportedCallError

T = TypeVar("T")

QUERIES, KEYS = 256, 256
"""The largest blocks. Their scores stay in a CPU core's cache."""

FEW = 32
"""The largest number of keys of a row of few keys."""


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
        `[…, Hq, L, Ev]`, and `[…, Hq, L]` in f32. A row that is masked completely is 0, as in
        PyTorch, and minus infinity.
    """
    call = _CallSizes.from_operands(query, key, value, attn_mask, is_causal, scale)
    q, k, v, mask = call.padded(query, key, value, attn_mask)
    size = v.shape[-1]

    # Of each row: the sum of weighted values, the sum of the weights, and the highest score so far.
    # In one array, as each array that the loop updates costs XLA kernels to compile.
    column = np.arange(size + 2)
    # The product with a column of ones is the sum of the weights.
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
    # Of a row that is masked completely, both are minus infinity.
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
    """The gradients of query, key and value. The arguments are those of `blockwise`.

    Scores have keys before queries. With queries first, two of the five products contract the first
    dimension of both operands, which XLA runs half as fast on the CPU. With keys first, one does.
    The gradient of the queries is summed up in blocks, since its dimension of queries is the last
    one: an update of a part of that would not be contiguous. The numbers of a block are one
    dimension then: XLA's code for the update is half as long as with two.
    """
    call = _CallSizes.from_operands(query, key, value, attn_mask, is_causal, scale)
    q, k, v, mask = call.padded(query, key, value, attn_mask)
    grads, results = call.queries(grad_output), call.queries(result)
    normalizers = None if call.key_blocks == 1 else call.normalizers(q, k, mask, log_sum_exp)
    products = (f32(grads) * f32(results)).sum(-1)

    Gradients = tuple[Array, Array, Array]

    def block(i: Array, j: Array, state: Gradients) -> Gradients:
        of_query, of_key, of_value = state
        queries, gradients = (f32(call.rows_of(x, i, -2)) for x in (q, grads))
        keys, values = (f32(_block(x, j, call.columns, -2)) for x in (k, v))
        scores = call.masked(product("...kd,...qd->...kq", keys, queries), mask, i, j, _transposed)
        of_weights = product("...kd,...qd->...kq", values, gradients)
        if normalizers is None:
            weights = jnp.exp(scores - _finite(scores.max(-2))[..., None, :])
            factor = _inverse(weights.sum(-2))
            sums = (weights * of_weights).sum(-2) * factor
        else:
            shift, factor = (call.rows_of(x, i, -1) for x in normalizers)
            weights = jnp.exp(scores - shift[..., None, :])
            sums = call.sums_of_products(i, products, weights, of_weights)
        differences = weights * (of_weights - sums[..., None, :])
        of_scores = differences * (factor * call.factor)[..., None, :]
        of_queries = product("...kd,...kq->...dq", keys, of_scores)
        added = (
            of_queries.reshape(*call.heads, -1),
            product("...kq,...qd->...kd", of_scores, queries),
            product("...kq,...qd->...kd", weights, gradients * factor[..., None]),
        )
        return (
            _with_block(of_query, _block(of_query, i, 1, 0) + added[0], i, 0),
            _with_block(of_key, _block(of_key, j, call.columns, -2) + added[1], j, -2),
            _with_block(of_value, _block(of_value, j, call.columns, -2) + added[2], j, -2),
        )

    of_block = query.shape[-1], call.group * call.rows
    start = (
        jnp.zeros((call.query_blocks, *call.heads, math.prod(of_block)), jnp.float32),
        jnp.zeros(k.shape, jnp.float32),
        jnp.zeros(v.shape, jnp.float32),
    )
    of_query, of_key, of_value = call.each_block(block, start)
    of_query = call.joined(of_query.reshape(*of_query.shape[:-1], *of_block))
    return (
        call.unpadded(of_query, query.shape[-1]).astype(query.dtype),
        of_key[..., : key.shape[-2], :].astype(key.dtype),
        of_value[..., : value.shape[-2], :].astype(value.dtype),
    )


@dataclass(frozen=True)
class _CallSizes:
    """The sizes of one call. L and S are padded to whole blocks."""

    heads: tuple[int, ...]
    """The dimensions of keys before S: batch and heads."""
    group: int
    """The number of heads of queries that share one of keys."""
    length: int
    """L."""
    keys: int
    """S."""
    factor: float
    is_causal: bool

    @classmethod
    def from_operands(
        cls,
        query: Array,
        key: Array,
        value: Array,
        attn_mask: Array | None,
        is_causal: bool,
        scale: float | None,
    ) -> "_CallSizes":
        heads = key.shape[:-2]
        group = query.shape[-3] // key.shape[-3] if heads else 1
        factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
        return cls(heads, group, query.shape[-2], key.shape[-2], factor, is_causal)

    @cached_property
    def rows(self) -> int:
        """Queries of a block."""
        return _size(self.length, QUERIES)

    @cached_property
    def columns(self) -> int:
        """Keys of a block."""
        return _size(self.keys, KEYS)

    @property
    def query_blocks(self) -> int:
        return -(-self.length // self.rows)

    @property
    def key_blocks(self) -> int:
        return -(-self.keys // self.columns)

    def padded(
        self, query: Array, key: Array, value: Array, mask: Array | None
    ) -> tuple[Array, Array, Array, Array | None]:
        """The operands with whole blocks. Queries are `[…, H, group, L, E]`, and the mask can be
        broadcast to `[…, H, group, L, S]`."""
        k, v = (_pad(x, -2, self.key_blocks * self.columns) for x in (key, value))
        return self.queries(query), k, v, None if mask is None else self._mask(mask)

    def queries(self, of_heads: Array, padding: float = 0) -> Array:
        """`[…, Hq, L, E]` as `[…, H, group, L, E]`, padded."""
        split = of_heads.reshape(*self.heads, self.group, *of_heads.shape[-2:])
        return _pad(split, -2, self.query_blocks * self.rows, padding)

    def unpadded(self, of_groups: Array, last: int) -> Array:
        """`[…, H, group, L, E]` as `[…, Hq, L, E]`."""
        cut = of_groups[..., : self.length, :]
        if not self.heads:
            return cut.reshape(self.length, last)
        return cut.reshape(*self.heads[:-1], self.heads[-1] * self.group, self.length, last)

    def _mask(self, mask: Array) -> Array:
        rank = len(self.heads) + 2
        heads_of_queries = (*self.heads[:-1], self.heads[-1] * self.group) if self.heads else ()
        whole = (*heads_of_queries, self.length, self.keys)
        if not _fits(mask.shape, whole):
            raise UnsupportedCallError("the mask has more dimensions, or larger ones, than scores")
        mask = mask.reshape((1,) * (rank - mask.ndim) + mask.shape)
        heads = mask.shape[-3] if self.heads else 1
        if heads == 1:  # the same for all heads
            mask = mask.reshape(*mask.shape[:-2], 1, *mask.shape[-2:])
        else:
            mask = mask.reshape(*mask.shape[:-3], heads // self.group, self.group, *mask.shape[-2:])
        if mask.shape[-2] > 1:
            mask = _pad(mask, -2, self.query_blocks * self.rows)
        if mask.shape[-1] > 1:
            mask = _pad(mask, -1, self.key_blocks * self.columns)
        return mask

    def normalizers(
        self, q: Array, k: Array, mask: Array | None, log_sum_exp: Array
    ) -> tuple[Array, Array]:
        """For each row, a shift and a factor: a probability is `exp(score - shift) * factor`.

        The logarithm of the sum is enough, except where a mask adds numbers: where all scores of a
        row are about -1e4, or the least number there is, it has lost the sum.
        """
        if mask is None or mask.dtype == jnp.bool_:
            sums = self.queries(log_sum_exp[..., None], -jnp.inf)[..., 0]
            # Of a row without exponentials every probability is 0, as exp(-inf - inf) is.
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
        """The masked scores of block `i` of the queries and block `j` of the keys, in f32:
        `[…, H, group * queries, keys]`."""
        queries, keys = self.rows_of(q, i, -2), _block(k, j, self.columns, -2)
        return self.masked(product("...qd,...kd->...qk", queries, keys), mask, i, j, _unchanged)

    def masked(
        self,
        products: Array,
        mask: Array | None,
        i: Array,
        j: Array,
        turned: Callable[[Array], Array],
    ) -> Array:
        """The masked scores of block `i` of the queries and block `j` of the keys.

        Args:
            products: of queries and keys.
            turned: gives what is `[…, H, group * queries, keys]` the order of the products.
        """
        scores = products * self.factor
        row = jnp.tile(_numbers(i, self.rows), self.group)[:, None]
        column = _numbers(j, self.columns)[None, :]
        if self.is_causal:
            scores = jnp.where(turned(column <= row), scores, -jnp.inf)
        if self.keys % self.columns:
            scores = jnp.where(turned(column < self.keys), scores, -jnp.inf)
        if mask is None:
            return scores
        part = mask if mask.shape[-2] == 1 else _block(mask, i, self.rows, -2)
        part = part if mask.shape[-1] == 1 else _block(part, j, self.columns, -1)
        part = jnp.broadcast_to(part, (*part.shape[:-3], self.group, self.rows, part.shape[-1]))
        part = turned(part.reshape(*part.shape[:-3], self.group * self.rows, part.shape[-1]))
        if part.dtype == jnp.bool_:
            return jnp.where(part, scores, -jnp.inf)
        return scores + part.astype(jnp.float32)

    def sums_of_products(
        self, i: Array, products: Array, weights: Array, of_weights: Array
    ) -> Array:
        """For each row of a block, the sum of probabilities times their gradients.

        It equals the sum of the result times its gradient. But where a row has few keys, the
        difference from it nearly cancels, and the rounding errors must cancel too. So the products
        of weights themselves are added up for the first rows of causal attention.

        Args:
            products: the result times its gradient, added up: `[…, H, group, L]`.
            weights: probabilities, up to a factor for each row: `[…, H, keys, group * queries]`.
            of_weights: the gradients of probabilities, likewise.
        """
        sums = self.rows_of(products, i, -1)
        if not self.is_causal:
            return sums
        few = min(FEW, self.rows, self.columns)

        def sum_of_few(x: Array) -> Array:
            whole = x.reshape(*x.shape[:-1], self.group, self.rows)
            return whole[..., :few, :, :few].sum(-3)

        exact = sum_of_few(weights * of_weights) * _inverse(sum_of_few(weights))
        exact = _pad(exact, -1, self.rows).reshape(sums.shape)
        row = jnp.tile(_numbers(i, self.rows), self.group)
        return jnp.where(row < few, exact, sums)

    def joined(self, blocks: Array) -> Array:
        """`[blocks, …, H, E, group * queries]` as `[…, H, group, L, E]`, padded."""
        split = blocks.reshape(*blocks.shape[:-1], self.group, self.rows)
        rank = split.ndim
        order = *range(1, rank - 3), rank - 2, 0, rank - 1, rank - 3
        whole = split.transpose(order)
        return whole.reshape(*whole.shape[:-3], -1, whole.shape[-1])

    def rows_of(self, of_queries: Array, i: Array, axis: int) -> Array:
        """Block `i` of an array with dimensions group and L, with `group * queries` in one.

        Products then have one dimension of rows each. XLA turns products of more into such ones by
        transposing their operands.
        """
        block = _block(of_queries, i, self.rows, axis)
        merged = self.group * self.rows
        after = block.shape[axis + 1 :] if axis < -1 else ()
        return block.reshape(*block.shape[: axis - 1], merged, *after)

    def with_rows(self, of_queries: Array, rows: Array, i: Array, axis: int) -> Array:
        """The opposite of `rows_of`."""
        after = rows.shape[axis + 1 :] if axis < -1 else ()
        block = rows.reshape(*rows.shape[:axis], self.group, self.rows, *after)
        return _with_block(of_queries, block, i, axis)

    def each_block(self, block: Callable[[Array, Array, T], T], start: T) -> T:
        """Run a function of `i`, `j` and a state for all blocks of queries and keys that are not
        masked by `is_causal`, and return the last state.

        It is one loop with one counter, which holds `i` in its upper half and `j` in the lower: XLA
        compiles a kernel for each number that a loop counts with.
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
        """The number of blocks of keys that block `i` of the queries reads."""
        if not self.is_causal:
            return self.key_blocks
        return jnp.minimum(((i + 1) * self.rows - 1) // self.columns + 1, self.key_blocks)


def _fits(shape: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    """Return whether an array of a shape can be broadcast to another shape."""
    pairs = zip(reversed(shape), reversed(whole), strict=False)
    return len(shape) <= len(whole) and all(size in (1, other) for size, other in pairs)


def _size(length: int, largest: int) -> int:
    """The size of a block: nearly equal ones, and no larger than `largest`."""
    blocks = max(-(-length // largest), 1)
    return max(-(-length // blocks), 1)


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
    place = number * block.shape[axis]
    return lax.dynamic_update_slice_in_dim(
        array, block, place, axis % array.ndim, allow_negative_indices=False
    )


def _numbers(block: Array, size: int) -> Array:
    """The numbers of the rows or columns of a block."""
    return jnp.int32(block) * size + jnp.arange(size, dtype=jnp.int32)


def _shifted(scores: Array, highest: Array) -> tuple[Array, Array, Array]:
    """The maximum of each row so far, the exponentials of scores without it, and the factor for the
    exponentials of earlier blocks."""
    new = _maxima(scores, highest)
    safe = _finite(new)
    return new, jnp.exp(scores - safe[..., None]), jnp.exp(highest - safe)


def _finite(highest: Array) -> Array:
    """The maximum of each row, with 0 for a row of which all is masked so far."""
    return jnp.where(jnp.isneginf(highest), 0, highest)


def _inverse(sums: Array) -> Array:
    """The inverse of each sum, and 0 for the sum of a row that is masked completely."""
    return jnp.where(sums == 0, 0, 1 / jnp.where(sums == 0, 1, sums))


def _maxima(scores: Array, highest: Array) -> Array:
    """The maximum of each row and of a number for the row."""
    size = scores.shape[-1]
    if size % 32:
        return jnp.maximum(highest, scores.max(-1))
    # XLA's CPU compiler makes two of a reduction of more than 32 elements, and fuses neither with
    # what computes the elements.
    parts = scores.reshape(*scores.shape[:-1], size // 32, 32).max(-2)
    return jnp.maximum(parts, highest[..., None]).max(-1)


def _transposed(array: Array) -> Array:
    return jnp.swapaxes(array, -1, -2)


def _unchanged(array: Array) -> Array:
    return array
