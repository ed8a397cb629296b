"""Causal attention for GPUs, in a few blocks of rows, each with all keys to which it attends.

With as many queries as keys, half of the scores are masked, but the stock decomposition computes
all of them. In this module, a block of rows has products only with the keys up to its last row,
which avoids three eighths of the scores.

Loops over smaller blocks (`composites.alternatives.attention`) are slower on a GPU: each iteration
waits for the host, and scores do not stay in a cache. So the blocks of this module are unrolled.
Their number is fixed, so the program does not grow with the length.

Scores and sums are in f32. If the operands are bf16, the factors of all products are rounded to
bf16, as in flash attention (Dao et al., 2022): a GPU multiplies them twice as fast, and reads half
as much. A GPU may round other factors to TF32, as in the stock decomposition, which is exact for
f16.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import jax.numpy as jnp
from jax import Array
from jax.lax import DotAlgorithmPreset

BLOCKS = 4
"""The number of blocks. With 8, XLA computes a tenth less, and takes twice as long to compile."""


def causal_rows(
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
    """Causal `aten::scaled_dot_product_attention` without a mask, and its `log_sum_exp`.

    Args:
        query: `[…, Hq, L, E]`.
        key, value: `[…, H, S, E]` and `[…, H, S, Ev]`. H divides Hq if `enable_gqa`. Row i of the
            queries attends to the keys 0 to i.

    Returns:
        `[…, Hq, L, Ev]`, and `[…, Hq, L]` in f32.
    """
    grouped = _by_heads_of(key, query)
    results, sums = [], []
    for rows in _blocks(query, key, scale):
        scores = rows.scores(grouped, key)
        highest = scores.max(-1)  # finite, because each row has a key
        weights = jnp.exp(scores - highest[..., None])
        total = weights.sum(-1)
        weighted = _bf16_product("...hgqk,...hkd->...hgqd", weights, rows.keys(value))
        results.append((weighted / total[..., None]).astype(query.dtype))
        sums.append(highest + jnp.log(total))
    shape = query.shape[:-1]
    return (
        jnp.concatenate(results, -2).reshape(*shape, value.shape[-1]),
        jnp.concatenate(sums, -1).reshape(shape),
    )


def causal_rows_backward(
    grad_output: Array,
    query: Array,
    key: Array,
    value: Array,
    result: Array,
    log_sum_exp: Array,
    scale: float | None,
) -> tuple[Array, Array, Array]:
    """The gradients of query, key and value. For the arguments see `causal_rows`."""
    grouped, grads, results = (_by_heads_of(key, x) for x in (query, grad_output, result))
    sums = _by_heads_of(key, log_sum_exp[..., None])
    grad_queries, grad_keys, grad_values = [], [], []
    for rows in _blocks(query, key, scale):
        queries, gradients = rows.rows(grouped), rows.rows(grads)
        weights = jnp.exp(rows.scores(grouped, key) - rows.rows(sums))
        grad_weights = _bf16_product("...hgqd,...hkd->...hgqk", gradients, rows.keys(value))
        if rows.start == 0:
            # In rows with few keys, both terms of the difference below nearly cancel, so their
            # rounding errors must cancel too, and the error of `log_sum_exp`.
            subtracted = (weights * grad_weights).sum(-1) / weights.sum(-1)
        else:
            subtracted = (f32(gradients) * f32(rows.rows(results))).sum(-1)
        grad_scores = weights * (grad_weights - subtracted[..., None]) * rows.factor
        grad_queries.append(_bf16_product("...hgqk,...hkd->...hgqd", grad_scores, rows.keys(key)))
        grad_keys.append(_bf16_product("...hgqk,...hgqd->...hkd", grad_scores, queries))
        grad_values.append(_bf16_product("...hgqk,...hgqd->...hkd", weights, gradients))
    return (
        jnp.concatenate(grad_queries, -2).reshape(query.shape).astype(query.dtype),
        _sum(grad_keys, key),
        _sum(grad_values, value),
    )


@dataclass(frozen=True)
class _Rows:
    """A block of queries."""

    start: int
    end: int
    seen: int
    """The number of keys to which the last row attends."""
    factor: float

    def rows(self, x: Array) -> Array:
        """Select the rows of the block from `[…, H, group, L, E]`."""
        return x[..., self.start : self.end, :]

    def keys(self, x: Array) -> Array:
        """Select the rows of key or value to which the block attends."""
        return x[..., : self.seen, :]

    def scores(self, query: Array, key: Array) -> Array:
        """Return the scores `[…, H, group, rows, keys]`, with minus infinity for masked scores."""
        products = _bf16_product("...hgqd,...hkd->...hgqk", self.rows(query), self.keys(key))
        row = jnp.arange(self.start, self.end, dtype=jnp.int32)[:, None]
        column = jnp.arange(self.seen, dtype=jnp.int32)[None, :]
        return jnp.where(column <= row, products * self.factor, -jnp.inf)


def _blocks(query: Array, key: Array, scale: float | None) -> Iterator[_Rows]:
    """Yield blocks of rows of nearly equal size. Empty blocks are left out."""
    length, keys = query.shape[-2], key.shape[-2]
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    bounds = [length * number // BLOCKS for number in range(BLOCKS + 1)]
    for start, end in pairwise(bounds):
        if end > start:
            yield _Rows(start, end, min(end, keys), factor)


def _by_heads_of(key: Array, x: Array) -> Array:
    """Reshape `[…, Hq, L, E]` to `[…, H, group, L, E]`."""
    heads = key.shape[-3]
    return x.reshape(*x.shape[:-3], heads, x.shape[-3] // heads, *x.shape[-2:])


def f32(operand: Array) -> Array:
    """Convert an operand of a product to f32. Products of two bf16 numbers stay the same.

    torch_xla's CPU runtime rejects products of bf16 to f32 with two batch dimensions, such as batch
    and heads.
    """
    return operand.astype(jnp.float32)


def product(equation: str, left: Array, right: Array) -> Array:
    """`jnp.einsum` of both operands in f32, which a GPU may round to TF32."""
    return jnp.einsum(equation, f32(left), f32(right))


def _bf16_product(equation: str, left: Array, right: Array) -> Array:
    """Multiply in f32, with factors rounded to bf16 if either operand is bf16.

    The operands of the product are f32 arrays with values that bf16 can hold, because torch_xla's
    CPU runtime rejects products of bf16 to f32 with two batch dimensions (see `f32`). `precision`
    tells a GPU's compiler that the values are bf16. A CPU computes the same products in f32.
    """
    if jnp.bfloat16 not in (left.dtype, right.dtype):
        return product(equation, left, right)
    factors = (f32(operand.astype(jnp.bfloat16)) for operand in (left, right))
    return jnp.einsum(equation, *factors, precision=DotAlgorithmPreset.BF16_BF16_F32)


def _sum(parts: Sequence[Array], like: Array) -> Array:
    """Add the gradients of keys or values from all blocks of rows."""
    rest = [(0, 0)] * (like.ndim - 2)
    padded = (
        jnp.pad(part, [*rest, (0, like.shape[-2] - part.shape[-2]), (0, 0)]) for part in parts
    )
    return sum(padded, jnp.zeros(like.shape, jnp.float32)).astype(like.dtype)
