"""Causal attention in a few blocks of rows, each with all the keys that it sees, for GPUs.

Where there are as many queries as keys, half of the scores are masked. Stock's decomposition
computes them all. Here a block of rows has products with the keys up to its last row only, so that
three eighths are left out.

A GPU is slower with loops over smaller blocks (`composites.alternatives.attention`): each of their
turns waits for the host, and their scores do not stay in a cache. Here the blocks are written out.
Their number is fixed, so the text does not grow with the length.

Scores and sums are in f32. Where the operands are bf16, the factors of all products are rounded to
bf16, as flash attention has it (Dao et al., 2022): a GPU multiplies them twice as fast, and reads
half as much. A GPU may round other factors to TF32, as it does for stock's; f16 loses nothing by
it.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import jax.numpy as jnp
from jax import Array
from jax.lax import DotAlgorithmPreset

from composites.alternatives.products import f32, product
from composites.errors import UnsupportedCallError

BLOCKS = 4
"""The number of blocks. With 8, a tenth less is computed, and XLA compiles twice as long."""


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
            queries sees the keys 0 to i.

    Returns:
        `[…, Hq, L, Ev]`, and `[…, Hq, L]` in f32.
    """
    _check(attn_mask, is_causal)
    grouped = _by_heads_of(key, query)
    results, sums = [], []
    for rows in _blocks(query, key, scale):
        scores = rows.scores(grouped, key)
        highest = scores.max(-1)  # of at least one key
        weights = jnp.exp(scores - highest[..., None])
        total = weights.sum(-1)
        weighted = _product("...hgqk,...hkd->...hgqd", weights, rows.keys(value))
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
    attn_mask: Array | None,
    result: Array,
    log_sum_exp: Array,
    is_causal: bool,
    scale: float | None,
) -> tuple[Array, Array, Array]:
    """The gradients of query, key and value. The arguments are those of `causal_rows`."""
    _check(attn_mask, is_causal)
    grouped, grads, results = (_by_heads_of(key, x) for x in (query, grad_output, result))
    sums = _by_heads_of(key, log_sum_exp[..., None])
    of_queries, of_keys, of_values = [], [], []
    for rows in _blocks(query, key, scale):
        queries, gradients = rows.rows(grouped), rows.rows(grads)
        weights = jnp.exp(rows.scores(grouped, key) - rows.rows(sums))
        of_weights = _product("...hgqd,...hkd->...hgqk", gradients, rows.keys(value))
        if rows.start == 0:
            # Of rows with few keys, both terms of the difference below nearly cancel, so that
            # their rounding errors must cancel too, and the error of `log_sum_exp`.
            subtracted = (weights * of_weights).sum(-1) / weights.sum(-1)
        else:
            subtracted = (f32(gradients) * f32(rows.rows(results))).sum(-1)
        of_scores = weights * (of_weights - subtracted[..., None]) * rows.factor
        of_queries.append(_product("...hgqk,...hkd->...hgqd", of_scores, rows.keys(key)))
        of_keys.append(_product("...hgqk,...hgqd->...hkd", of_scores, queries))
        of_values.append(_product("...hgqk,...hgqd->...hkd", weights, gradients))
    return (
        jnp.concatenate(of_queries, -2).reshape(query.shape).astype(query.dtype),
        _sum(of_keys, key),
        _sum(of_values, value),
    )


@dataclass(frozen=True)
class _Rows:
    """A block of queries."""

    start: int
    end: int
    seen: int
    """The number of keys that its last row sees."""
    factor: float

    def rows(self, x: Array) -> Array:
        """The rows of `x`, `[…, H, group, L, E]`, that belong to the block."""
        return x[..., self.start : self.end, :]

    def keys(self, x: Array) -> Array:
        """The rows of key or value that the block sees."""
        return x[..., : self.seen, :]

    def scores(self, query: Array, key: Array) -> Array:
        """`[…, H, group, rows, keys]`, minus infinity where masked."""
        products = _product("...hgqd,...hkd->...hgqk", self.rows(query), self.keys(key))
        row = jnp.arange(self.start, self.end, dtype=jnp.int32)[:, None]
        column = jnp.arange(self.seen, dtype=jnp.int32)[None, :]
        return jnp.where(column <= row, products * self.factor, -jnp.inf)


def _blocks(query: Array, key: Array, scale: float | None) -> Iterator[_Rows]:
    """Blocks of rows, as equal as they can be, without empty ones."""
    length, keys = query.shape[-2], key.shape[-2]
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    bounds = [length * number // BLOCKS for number in range(BLOCKS + 1)]
    for start, end in pairwise(bounds):
        if end > start:
            yield _Rows(start, end, min(end, keys), factor)


def _by_heads_of(key: Array, x: Array) -> Array:
    """`[…, Hq, L, E]` as `[…, H, group, L, E]`."""
    heads = key.shape[-3]
    return x.reshape(*x.shape[:-3], heads, x.shape[-3] // heads, *x.shape[-2:])


def _product(equation: str, one: Array, other: Array) -> Array:
    """The product in f32, of factors in bf16 where one operand is.

    Its operands are still f32, with factors that bf16 holds: torch_xla's CPU runtime refuses
    products of bf16 to f32 with two batch dimensions (`f32`). The algorithm tells a GPU's compiler
    what the factors are; a CPU's computes in f32, which has the same products.
    """
    if jnp.bfloat16 not in (one.dtype, other.dtype):
        return product(equation, one, other)
    factors = (f32(operand.astype(jnp.bfloat16)) for operand in (one, other))
    return jnp.einsum(equation, *factors, precision=DotAlgorithmPreset.BF16_BF16_F32)


def _sum(parts: Sequence[Array], like: Array) -> Array:
    """The sum of the gradients of keys from all blocks of rows."""
    rest = [(0, 0)] * (like.ndim - 2)
    padded = (
        jnp.pad(part, [*rest, (0, like.shape[-2] - part.shape[-2]), (0, 0)]) for part in parts
    )
    return sum(padded, jnp.zeros(like.shape, jnp.float32)).astype(like.dtype)


def _check(mask: Array | None, is_causal: bool) -> None:
    if mask is not None or not is_causal:
        raise UnsupportedCallError("takes causal attention without a mask")
