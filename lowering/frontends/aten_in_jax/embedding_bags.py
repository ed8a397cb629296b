"""Rules of `torch.nn.EmbeddingBag` while its entry is off: sums, means and maxima of rows, and
gradients."""

from typing import Any

import jax.numpy as jnp

from lowering.frontends.aten_in_jax.dtypes import opmath_dtype
from lowering.frontends.aten_in_jax.table import NoRuleError, rule

_MEAN, _MAX = 1, 2
"""Modes. The remaining mode, 0, is the sum."""


@rule("aten::_embedding_bag", "aten::_embedding_bag_forward_only")
def _embedding_bag(
    dtypes: Any, /, weight: Any, indices: Any, offsets: Any, scale_grad_by_freq: bool = False,
    mode: int = 0, sparse: bool = False, per_sample_weights: Any = None,
    include_last_offset: bool = False, padding_idx: int = -1,
) -> Any:  # fmt: skip
    count, numbers = len(offsets) - include_last_offset, jnp.arange(len(indices))
    bags = jnp.searchsorted(offsets[:count], numbers, side="right") - 1
    is_counted = (indices != padding_idx)[:, None]
    sizes = jnp.zeros(len(offsets), int).at[bags].add(is_counted[:, 0])
    rows = jnp.take(weight, indices, 0, mode="clip").astype(opmath_dtype(dtypes[0]))
    shape = (count, weight.shape[1])
    if mode == _MAX:
        rows = jnp.where(is_counted, rows, -jnp.inf)
        largest = jnp.full(shape, -jnp.inf, rows.dtype).at[bags].max(rows)
        positions = jnp.where(rows == largest[bags], numbers[:, None], len(indices))
        first = jnp.full(shape, len(indices)).at[bags].min(positions)
        chosen = jnp.take(indices, first, mode="clip") if len(indices) else first
        return jnp.where(sizes[:count, None] > 0, largest, 0), bags, sizes, chosen
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, None]
    sums = jnp.zeros(shape, rows.dtype).at[bags].add(jnp.where(is_counted, rows, 0))
    if mode == _MEAN:
        sums = sums / jnp.maximum(sizes[:count, None], 1)
    return sums, bags, sizes, jnp.zeros(0, int)


@rule("aten::_embedding_bag_backward")
def _embedding_bag_backward(
    dtype: Any, /, grad: Any, indices: Any, offsets: Any, bags: Any, sizes: Any, chosen: Any,
    num_weights: int, scale_grad_by_freq: bool, mode: int, sparse: bool, per_sample_weights: Any,
    padding_idx: int = -1,
) -> Any:  # fmt: skip
    if sparse:
        raise NoRuleError("aten::_embedding_bag_backward makes a sparse gradient")
    grad = grad.astype(opmath_dtype(dtype))
    made = jnp.zeros((num_weights, grad.shape[1]), grad.dtype)
    if mode == _MAX:
        counted = jnp.where(sizes[: len(grad), None] > 0, grad, 0)
        return made.at[chosen, jnp.arange(grad.shape[1])].add(counted)
    factors = (indices != padding_idx).astype(grad.dtype)
    if mode == _MEAN:
        factors = factors / jnp.maximum(sizes[bags], 1)
    if per_sample_weights is not None:
        factors = factors * per_sample_weights
    if scale_grad_by_freq:
        factors = factors / jnp.zeros(num_weights, grad.dtype).at[indices].add(1)[indices]
    return made.at[indices].add(grad[bags] * factors[:, None])


@rule("aten::_embedding_bag_per_sample_weights_backward")
def _weights_backward(
    dtype: Any, /, grad: Any, weight: Any, indices: Any, offsets: Any, bags: Any, mode: int,
    padding_idx: int = -1,
) -> Any:  # fmt: skip
    rows = jnp.take(weight, indices, 0, mode="clip")
    return jnp.where(indices != padding_idx, (grad[bags] * rows).sum(1), 0)
