"""Attention in blocks of queries and keys, forward and backward, which never holds all scores.

Dao et al., "FlashAttention" (2022), and Rabe and Staats, "Self-attention Does Not Need O(n^2)
Memory" (2021). The scores of one block of queries and one block of keys are computed at a time. The
forward keeps for each row the maximum and the sum of exponentials so far; the backward computes the
probabilities again from `log_sum_exp`. Blocks that `is_causal` masks completely are skipped.

Batch and heads stay dimensions of their own: merged, they could not be sharded apart. Heads of
queries that share a head of keys are a dimension too, so keys are never repeated. Scores and sums
are in f32, also where the operands are bf16.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import jax.numpy as jnp
from jax import Array, lax

from composites.errors import UnsupportedCallError

QUERIES, KEYS = 256, 256
"""The largest blocks. Their scores stay in a CPU core's cache."""


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
    call = _Call.of(query, key, value, attn_mask, is_causal, scale)
    q, k, v, mask = call.padded(query, key, value, attn_mask)

    def of_queries(i: Array, done: tuple[Array, Array]) -> tuple[Array, Array]:
        queries = _block(q, i, call.rows, -2)

        def of_keys(j: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            total, highest, exponentials = state
            scores = call.scores(queries, _block(k, j, call.columns, -2), mask, i, j)
            new, weights, factor = _shifted(scores, highest)
            exponentials = exponentials * factor + weights.sum(-1)
            values = _block(v, j, call.columns, -2)
            added = _product("...gqk,...kd->...gqd", weights, values)
            return total * factor[..., None] + added, new, exponentials

        rows = (*q.shape[:-2], call.rows)
        start = (
            jnp.zeros((*rows, v.shape[-1]), jnp.float32),
            jnp.full(rows, -jnp.inf, jnp.float32),
            jnp.zeros(rows, jnp.float32),
        )
        total, highest, exponentials = lax.fori_loop(0, call.last_keys(i), of_keys, start)
        nothing = exponentials == 0
        result = total / jnp.where(nothing, 1, exponentials)[..., None]
        sums = jnp.where(nothing, -jnp.inf, _finite(highest) + jnp.log(exponentials))
        results, all_sums = done
        return (
            _with_block(results, result.astype(query.dtype), i, -2),
            _with_block(all_sums, sums, i, -1),
        )

    empty = (
        jnp.zeros((*q.shape[:-1], v.shape[-1]), query.dtype),
        jnp.zeros(q.shape[:-1], jnp.float32),
    )
    results, sums = lax.fori_loop(0, call.query_blocks, of_queries, empty)
    return call.unpadded(results, value.shape[-1]), call.unpadded(sums[..., None], 1)[..., 0]


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
    """The gradients of query, key and value. The arguments are those of `blockwise`."""
    call = _Call.of(query, key, value, attn_mask, is_causal, scale)
    q, k, v, mask = call.padded(query, key, value, attn_mask)
    grads, results = call.queries(grad_output), call.queries(result)
    shift, factors = call.normalizers(q, k, mask, log_sum_exp)

    def block_of(i: Array, j: Array) -> tuple[Array, Array]:
        """The probabilities of a block and their gradients, both `[…, H, keys, group, queries]`.

        So only small operands of the products below have to be transposed.
        """
        queries, given = _block(q, i, call.rows, -2), _block(grads, i, call.rows, -2)
        keys, values = _block(k, j, call.columns, -2), _block(v, j, call.columns, -2)
        scores = call.scores(queries, keys, mask, i, j, keys_first=True)
        weights = jnp.exp(scores - _block(shift, i, call.rows, -1)[..., None, :, :])
        if factors is not None:
            weights = weights * _block(factors, i, call.rows, -1)[..., None, :, :]
        return weights, _product("...kd,...gqd->...kgq", values, given)

    products = (grads.astype(jnp.float32) * results.astype(jnp.float32)).sum(-1)
    if call.is_causal:
        exact = _sums_of_products(*block_of(jnp.int32(0), jnp.int32(0)))
        rows = jnp.arange(call.rows) < (call.columns if call.key_blocks > 1 else call.rows)
        exact = jnp.where(rows, exact, _block(products, jnp.int32(0), call.rows, -1))
        products = _with_block(products, exact, jnp.int32(0), -1)

    Gradients = tuple[Array, Array, Array]

    def of_keys(j: Array, state: Gradients) -> Gradients:
        of_query, of_key, of_value = state
        keys = _block(k, j, call.columns, -2)

        def of_queries(i: Array, inner: Gradients) -> Gradients:
            of_query, of_block, of_values = inner
            queries, given = _block(q, i, call.rows, -2), _block(grads, i, call.rows, -2)
            weights, of_weights = block_of(i, j)
            if call.key_blocks == 1:
                sum_of_products = _sums_of_products(weights, of_weights)
            else:
                sum_of_products = _block(products, i, call.rows, -1)
            of_scores = weights * (of_weights - sum_of_products[..., None, :, :])
            of_values = of_values + _product("...kgq,...gqd->...kd", weights, given)
            of_block = of_block + _product("...kgq,...gqd->...kd", of_scores, queries)
            added = _product("...kd,...kgq->...dgq", keys, of_scores)
            before = lax.dynamic_index_in_dim(of_query, i, 0, keepdims=False)
            of_query = lax.dynamic_update_index_in_dim(of_query, before + added, i, 0)
            return of_query, of_block, of_values

        start = (
            of_query,
            jnp.zeros(keys.shape, jnp.float32),
            jnp.zeros((*keys.shape[:-1], v.shape[-1]), jnp.float32),
        )
        of_query, of_block, of_values = lax.fori_loop(
            call.first_queries(j), call.query_blocks, of_queries, start
        )
        of_block = of_block * call.factor
        return (
            of_query,
            _with_block(of_key, of_block.astype(key.dtype), j, -2),
            _with_block(of_value, of_values.astype(value.dtype), j, -2),
        )

    blocks = (call.query_blocks, *call.heads, q.shape[-1], call.group, call.rows)
    empty = (jnp.zeros(blocks, jnp.float32), jnp.zeros_like(k), jnp.zeros_like(v))
    of_query, of_key, of_value = lax.fori_loop(0, call.key_blocks, of_keys, empty)
    # From [blocks, …, H, E, group, rows] to [..., H, group, blocks, rows, E].
    of_query = jnp.moveaxis(of_query * call.factor, (0, -3), (-3, -1)).reshape(q.shape)
    return (
        call.unpadded(of_query, query.shape[-1]).astype(query.dtype),
        of_key[..., : key.shape[-2], :].reshape(key.shape),
        of_value[..., : value.shape[-2], :].reshape(value.shape),
    )


@dataclass(frozen=True)
class _Call:
    """The sizes of one call. L and S are padded to whole blocks."""

    heads: tuple[int, ...]
    """The dimensions of keys before S: batch and heads."""
    group: int
    """How many heads of queries share one of keys."""
    length: int
    """L."""
    keys: int
    """S."""
    factor: float
    is_causal: bool

    @classmethod
    def of(
        cls,
        query: Array,
        key: Array,
        value: Array,
        attn_mask: Array | None,
        is_causal: bool,
        scale: float | None,
    ) -> _Call:
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
    ) -> tuple[Array, Array | None]:
        """What a probability is of its score: `exp(score - shift) * factor`, for each row.

        The logarithm of the sum is enough, except where a mask adds numbers: where all scores of a
        row are about -1e4, or the least number there is, it has lost the sum.
        """
        if mask is None or mask.dtype == jnp.bool_:
            sums = self.queries(log_sum_exp[..., None], -jnp.inf)[..., 0]
            # Of a row without exponentials every probability is 0, as exp(-inf - inf) is.
            return jnp.where(jnp.isneginf(sums), jnp.inf, sums), None

        def of_queries(i: Array, done: tuple[Array, Array]) -> tuple[Array, Array]:
            queries = _block(q, i, self.rows, -2)

            def of_keys(j: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
                scores = self.scores(queries, _block(k, j, self.columns, -2), mask, i, j)
                highest, weights, factor = _shifted(scores, state[0])
                return highest, state[1] * factor + weights.sum(-1)

            rows = (*q.shape[:-2], self.rows)
            start = jnp.full(rows, -jnp.inf, jnp.float32), jnp.zeros(rows, jnp.float32)
            highest, sums = lax.fori_loop(0, self.last_keys(i), of_keys, start)
            factor = jnp.where(sums == 0, 0, 1 / jnp.where(sums == 0, 1, sums))
            shift = _finite(highest)
            return _with_block(done[0], shift, i, -1), _with_block(done[1], factor, i, -1)

        empty = jnp.zeros(q.shape[:-1], jnp.float32)
        found: tuple[Array, Array] = lax.fori_loop(0, self.query_blocks, of_queries, (empty, empty))
        return found

    def scores(
        self,
        queries: Array,
        keys: Array,
        mask: Array | None,
        i: Array,
        j: Array,
        *,
        keys_first: bool = False,
    ) -> Array:
        """The masked scores of block `i` of the queries and block `j` of the keys, in f32.

        They are `[…, H, group, queries, keys]`, or `[…, H, keys, group, queries]`.
        """

        def turned(part: Array) -> Array:
            return jnp.moveaxis(part, -1, -3) if keys_first else part

        if keys_first:
            scores = _product("...kd,...gqd->...kgq", keys, queries) * self.factor
        else:
            scores = _product("...gqd,...kd->...gqk", queries, keys) * self.factor
        row = _numbers(i, self.rows)[None, :, None]
        column = _numbers(j, self.columns)[None, None, :]
        if self.is_causal:
            scores = jnp.where(turned(column <= row), scores, -jnp.inf)
        if self.keys % self.columns:
            scores = jnp.where(turned(column < self.keys), scores, -jnp.inf)
        if mask is None:
            return scores
        part = mask if mask.shape[-2] == 1 else _block(mask, i, self.rows, -2)
        part = part if mask.shape[-1] == 1 else _block(part, j, self.columns, -1)
        if part.dtype == jnp.bool_:
            return jnp.where(turned(part), scores, -jnp.inf)
        return scores + turned(part).astype(jnp.float32)

    def last_keys(self, i: Array) -> Array | int:
        """How many blocks of keys block `i` of the queries reads."""
        if not self.is_causal:
            return self.key_blocks
        return jnp.minimum(((i + 1) * self.rows - 1) // self.columns + 1, self.key_blocks)

    def first_queries(self, j: Array) -> Array | int:
        """The first block of queries that reads block `j` of the keys."""
        if not self.is_causal:
            return 0
        return jnp.minimum(j * self.columns // self.rows, self.query_blocks)


def _fits(shape: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    """Whether an array of a shape can be broadcast to another shape."""
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
    return lax.dynamic_slice_in_dim(array, number * size, size, axis % array.ndim)


def _with_block(array: Array, block: Array, number: Array, axis: int) -> Array:
    place = number * block.shape[axis]
    return lax.dynamic_update_slice_in_dim(array, block, place, axis % array.ndim)


def _numbers(block: Array, size: int) -> Array:
    """The numbers of the rows or columns of a block."""
    return jnp.int32(block) * size + jnp.arange(size, dtype=jnp.int32)


def _shifted(scores: Array, highest: Array) -> tuple[Array, Array, Array]:
    """The maximum of each row so far, the exponentials of scores without it, and what those of
    earlier blocks are multiplied with."""
    new = jnp.maximum(highest, scores.max(-1))
    safe = _finite(new)
    return new, jnp.exp(scores - safe[..., None]), jnp.exp(highest - safe)


def _finite(highest: Array) -> Array:
    """The maximum of each row, with 0 for a row of which all is masked so far."""
    return jnp.where(jnp.isneginf(highest), 0, highest)


def _sums_of_products(weights: Array, of_weights: Array) -> Array:
    """For each row, the sum of probabilities times their gradients, where one block has all keys.

    What is subtracted from a gradient then has the same rounding errors as the gradient. They would
    not cancel in rows of few keys, where they are most of the result.
    """
    total = weights.sum(-3)
    return (weights * of_weights).sum(-3) / jnp.where(total == 0, 1, total)


def _product(equation: str, one: Array, other: Array) -> Array:
    """A product that adds up in f32.

    The operands are made f32 first, which changes no product of two bf16 numbers: torch_xla's CPU
    runtime refuses products from bf16 to f32 with two batch dimensions, as batch and heads are.
    """
    return jnp.einsum(equation, one.astype(jnp.float32), other.astype(jnp.float32))
