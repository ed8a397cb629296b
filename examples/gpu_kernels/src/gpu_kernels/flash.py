"""Attention in Pallas, for calls that cuDNN does not take: f32, and heads of any size up to 128.

Dao, "FlashAttention-2" (2023): no tensor of the size of the scores is ever in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from composites import UnsupportedCallError
from gpu_kernels.pallas import call, index, power_of_two, second
from gpu_kernels.types import FLOATS, check_attention, check_floats, same

_BLOCK = 64
"""Queries, and keys, that a program holds at a time."""
_LARGEST_HEAD = 128
_SMALLEST = 16
"""Triton multiplies no smaller matrices."""


def attention(
    query: Array,
    key: Array,
    value: Array,
    *mask: Array,
    dropout_p: float,
    is_causal: bool,
    enable_gqa: bool,
    scale: float | None = None,
) -> list[Array]:
    """`ptxla.scaled_dot_product_attention`.

    Args:
        query: `[…, Hq, L, E]`; f32, bf16 or f16.
        key, value: `[…, H, S, E]`; H divides Hq if `enable_gqa`, and otherwise is Hq.

    Returns:
        `[…, Hq, L, E]`, and the logarithms of the sums of exponentials, `[…, Hq, L]`, f32.

    Raises:
        UnsupportedCallError: for dropout, masks, and heads of more than 128 numbers.
    """
    if mask:
        raise UnsupportedCallError("takes no mask, of which a row may leave no key")
    _check(query, key, value, dropout_p, enable_gqa)
    q, k, v = map(_flat, (query, key, value))
    sizes = _Sizes.from_operands(q, k, is_causal, scale)
    result, sums = call(
        partial(_forward, sizes=sizes),
        [same(q), jax.ShapeDtypeStruct(q.shape[:-1], jnp.float32)],
        [q, k, v],
        grid=(q.shape[0], pl.cdiv(sizes.queries, _BLOCK)),
        read=[sizes.some(), sizes.all_keys(), sizes.all_keys()],
        written=[sizes.some(), _some_rows()],
    )
    return [result.reshape(query.shape), sums.reshape(query.shape[:-1])]


def attention_backward(
    grad_output: Array,
    query: Array,
    key: Array,
    value: Array,
    *saved: Array,
    dropout_p: float,
    is_causal: bool,
    enable_gqa: bool,
    output_mask: tuple[bool, ...],
    scale: float | None = None,
) -> list[Array]:
    """`ptxla.scaled_dot_product_attention_backward`: the gradients of query, key and value.

    Args:
        grad_output: `[…, Hq, L, E]`.
        saved: the forward's two results.

    Raises:
        UnsupportedCallError: as the forward, and where other gradients are needed.
    """
    if len(saved) != 2:
        raise UnsupportedCallError("takes no mask, of which a row may leave no key")
    if output_mask != (True, True, True, False):
        raise UnsupportedCallError("computes the gradients of query, key and value")
    _check(query, key, value, dropout_p, enable_gqa)
    check_floats(grad_output, query, saved[0])
    q, k, v, result, grad = map(_flat, (query, key, value, saved[0], grad_output))
    sizes = _Sizes.from_operands(q, k, is_causal, scale)
    sums = saved[1].reshape(q.shape[:-1])
    # Of each row: what the gradient of the softmax subtracts.
    products = jnp.sum(grad.astype(jnp.float32) * result.astype(jnp.float32), -1)
    operands = [q, k, v, grad, sums, products]
    (of_query,) = call(
        partial(_backward_queries, sizes=sizes),
        [same(q)],
        operands,
        grid=(q.shape[0], pl.cdiv(sizes.queries, _BLOCK)),
        read=[
            *(sizes.some(), sizes.all_keys(), sizes.all_keys(), sizes.some()),
            *(_some_rows(), _some_rows()),
        ],
        written=[sizes.some()],
    )
    # Of each head of query; heads that share a key are added afterwards.
    of_each = jax.ShapeDtypeStruct((q.shape[0], *k.shape[1:]), jnp.float32)
    of_key, of_value = call(
        partial(_backward_keys, sizes=sizes),
        [of_each] * 2,
        operands,
        grid=(q.shape[0], pl.cdiv(sizes.keys, _BLOCK)),
        read=[
            *(sizes.all_queries(), sizes.some_keys(), sizes.some_keys(), sizes.all_queries()),
            *(sizes.all_rows(), sizes.all_rows()),
        ],
        written=[sizes.some(), sizes.some()],
    )
    return [
        of_query.reshape(query.shape),
        *(
            jnp.sum(each.reshape(-1, sizes.group, *k.shape[1:]), 1)
            .astype(key.dtype)
            .reshape(key.shape)
            for each in (of_key, of_value)
        ),
    ]


class _Sizes:
    """Sizes of one call, and the blocks of its operands. Heads and batch are one dimension."""

    def __init__(
        self, queries: int, keys: int, head: int, group: int, causal: bool, scale: float
    ) -> None:
        self.queries, self.keys, self.head, self.group = queries, keys, head, group
        self.causal, self.scale = causal, scale
        self.padded = max(_SMALLEST, power_of_two(head))

    @classmethod
    def from_operands(cls, q: Array, k: Array, causal: bool, scale: float | None) -> _Sizes:
        """Of `[N * Hq, L, E]` and `[N * H, S, E]`."""
        head = q.shape[-1]
        factor = 1 / math.sqrt(head) if scale is None else scale
        return cls(q.shape[1], k.shape[1], head, q.shape[0] // k.shape[0], causal, factor)

    def some(self) -> pl.BlockSpec:
        """Rows of this program, of a tensor of query's heads."""
        return pl.BlockSpec((None, _BLOCK, self.padded), lambda i, j: (i, j, 0))

    def some_keys(self) -> pl.BlockSpec:
        """Rows of this program, of key or value."""
        return pl.BlockSpec((None, _BLOCK, self.padded), lambda i, j: (i // self.group, j, 0))

    def all_keys(self) -> pl.BlockSpec:
        """All rows of key or value."""
        shape = (None, _whole(self.keys), self.padded)
        return pl.BlockSpec(shape, lambda i, j: (i // self.group, 0, 0))

    def all_queries(self) -> pl.BlockSpec:
        """All rows of query or of the gradient."""
        return pl.BlockSpec((None, _whole(self.queries), self.padded), lambda i, j: (i, 0, 0))

    def all_rows(self) -> pl.BlockSpec:
        """A number for each query."""
        return pl.BlockSpec((None, _whole(self.queries)), lambda i, j: (i, 0))

    def rows(self, ref: Any, number: Any, count: int) -> Array:
        """Block `number` of a tensor, with zeros beyond its ends; in its own type."""
        start = number * _BLOCK
        kept = (index(_BLOCK, start) < count)[:, None] & (index(self.padded) < self.head)[None, :]
        return triton.load(ref.at[pl.ds(start, _BLOCK), :], mask=kept, other=0.0)

    def numbers(self, ref: Any, number: Any) -> Array:
        """Block `number` of what is of a query, with zeros beyond the end."""
        start = number * _BLOCK
        kept = index(_BLOCK, start) < self.queries
        return triton.load(ref.at[pl.ds(start, _BLOCK)], mask=kept, other=0.0)

    def scores(self, q: Array, k: Array, row: Any, column: Any) -> Array:
        """Of block `row` of queries and block `column` of keys; minus infinity where masked."""
        scores = _dot(q, k, trans_b=True) * self.scale
        columns = index(_BLOCK, column * _BLOCK)[None, :]
        kept = columns < self.keys
        if self.causal:
            kept = kept & (columns <= index(_BLOCK, row * _BLOCK)[:, None])
        return jnp.where(kept, scores, -jnp.inf)

    def last_key(self, row: Any) -> Any:
        """The number of key blocks that query block `row` attends to."""
        blocks = pl.cdiv(self.keys, _BLOCK)
        return jnp.minimum(row + 1, blocks) if self.causal else jnp.int32(blocks)

    def store(self, ref: Any, value: Array, count: int) -> None:
        """Write the rows of this program, of a tensor that has `count`."""
        rows = index(_BLOCK, second() * _BLOCK) < count
        kept = rows[:, None] & (index(self.padded) < self.head)[None, :]
        triton.store(ref.at[:, :], value.astype(ref.dtype), mask=kept)


def _forward(
    q_ref: Any, k_ref: Any, v_ref: Any, result_ref: Any, sums_ref: Any, *, sizes: _Sizes
) -> None:
    row = second()
    q = _own(sizes, q_ref, sizes.queries)

    def part(number: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        largest, total, result = carry
        k, v = (sizes.rows(ref, number, sizes.keys) for ref in (k_ref, v_ref))
        scores = sizes.scores(q, k, row, number)
        new = jnp.maximum(largest, jnp.max(scores, 1))  # finite: the first key is never masked
        weights = jnp.exp(scores - new[:, None])
        shrunk = jnp.exp(largest - new)
        result = result * shrunk[:, None] + _dot(weights.astype(v.dtype), v)
        return new, total * shrunk + jnp.sum(weights, 1), result

    start = (
        jnp.full((_BLOCK,), -jnp.inf, jnp.float32),
        jnp.zeros((_BLOCK,), jnp.float32),
        jnp.zeros((_BLOCK, sizes.padded), jnp.float32),
    )
    largest, total, result = _loop(0, sizes.last_key(row), part, start)
    sizes.store(result_ref, result / total[:, None], sizes.queries)
    kept = index(_BLOCK, row * _BLOCK) < sizes.queries
    triton.store(sums_ref.at[:], largest + jnp.log(total), mask=kept)


def _backward_queries(
    q_ref: Any,
    k_ref: Any,
    v_ref: Any,
    grad_ref: Any,
    sums_ref: Any,
    products_ref: Any,
    result_ref: Any,
    *,
    sizes: _Sizes,
) -> None:
    row = second()
    q, grad = (_own(sizes, ref, sizes.queries) for ref in (q_ref, grad_ref))
    kept = index(_BLOCK, row * _BLOCK) < sizes.queries
    sums, products = (
        triton.load(ref.at[:], mask=kept, other=0.0) for ref in (sums_ref, products_ref)
    )

    def part(number: Array, result: Array) -> Array:
        k, v = (sizes.rows(ref, number, sizes.keys) for ref in (k_ref, v_ref))
        weights = jnp.exp(sizes.scores(q, k, row, number) - sums[:, None])
        of_scores = weights * (_dot(grad, v, trans_b=True) - products[:, None])
        return result + _dot(of_scores.astype(k.dtype), k)

    zeros = jnp.zeros((_BLOCK, sizes.padded), jnp.float32)
    result = _loop(0, sizes.last_key(row), part, zeros)
    sizes.store(result_ref, result * sizes.scale, sizes.queries)


def _backward_keys(
    q_ref: Any,
    k_ref: Any,
    v_ref: Any,
    grad_ref: Any,
    sums_ref: Any,
    products_ref: Any,
    of_key_ref: Any,
    of_value_ref: Any,
    *,
    sizes: _Sizes,
) -> None:
    column = second()
    k, v = (_own(sizes, ref, sizes.keys) for ref in (k_ref, v_ref))

    def part(number: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        of_key, of_value = carry
        q, grad = (sizes.rows(ref, number, sizes.queries) for ref in (q_ref, grad_ref))
        sums, products = (sizes.numbers(ref, number) for ref in (sums_ref, products_ref))
        # Rows beyond the end add nothing: their gradients are zero, and so are their products.
        weights = jnp.exp(sizes.scores(q, k, number, column) - sums[:, None])
        of_scores = weights * (_dot(grad, v, trans_b=True) - products[:, None])
        of_value = of_value + _dot(weights.astype(grad.dtype), grad, trans_a=True)
        return of_key + _dot(of_scores.astype(q.dtype), q, trans_a=True), of_value

    zeros = jnp.zeros((_BLOCK, sizes.padded), jnp.float32)
    start = column if sizes.causal else 0
    of_key, of_value = _loop(start, pl.cdiv(sizes.queries, _BLOCK), part, (zeros, zeros))
    sizes.store(of_key_ref, of_key * sizes.scale, sizes.keys)
    sizes.store(of_value_ref, of_value, sizes.keys)


def _own(sizes: _Sizes, ref: Any, count: int) -> Array:
    """The rows of this program, with zeros beyond the ends."""
    rows = index(_BLOCK, second() * _BLOCK) < count
    kept = rows[:, None] & (index(sizes.padded) < sizes.head)[None, :]
    return triton.load(ref.at[:, :], mask=kept, other=0.0)


def _loop(start: Any, end: Any, part: Callable[..., Any], carry: Any) -> Any:
    return jax.lax.fori_loop(jnp.int32(start), jnp.int32(end), part, carry)


def _dot(a: Array, b: Array, *, trans_a: bool = False, trans_b: bool = False) -> Array:
    """A product with sums in f32; of f32, the factors are not rounded to TF32."""
    contracted = ((0 if trans_a else 1,), (1 if trans_b else 0,))
    exact = jax.lax.Precision.HIGHEST if a.dtype == jnp.float32 else None
    return jax.lax.dot_general(
        a, b, (contracted, ((), ())), precision=exact, preferred_element_type=jnp.float32
    )


def _some_rows() -> pl.BlockSpec:
    """A number for each query of this program."""
    return pl.BlockSpec((None, _BLOCK), lambda i, j: (i, j))


def _whole(count: int) -> int:
    """Rows of all blocks together."""
    return pl.cdiv(count, _BLOCK) * _BLOCK


def _flat(x: Array) -> Array:
    return x.reshape(-1, *x.shape[-2:])


def _check(query: Array, key: Array, value: Array, dropout_p: float, enable_gqa: bool) -> None:
    check_attention(query, key, value, dropout_p, enable_gqa, FLOATS)
    if query.shape[-1] > _LARGEST_HEAD:
        raise UnsupportedCallError(
            f"takes heads of at most {_LARGEST_HEAD} numbers, not {query.shape[-1]}"
        )
