"""Sums, means and maxima of bags of rows (torch.nn.functional.embedding_bag). torch_xla computes
them on the CPU."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from composites.errors import InvalidCallError, UnsupportedCallError
from composites.operators.opmath import opmath_type


def embedding_bag(
    weight: Tensor,
    input: Tensor,
    offsets: Tensor | None = None,
    per_sample_weights: Tensor | None = None,
    *,
    mode: str,
    include_last_offset: bool,
    padding_idx: int | None,
) -> Tensor:
    """Reduce the rows of each bag to one row.

    Args:
        weight: `[V, D]`.
        input: indices of rows of `weight`: `[B, N]`, N in each bag, or `[N]` with `offsets`.
        offsets: `[B]`, the start of each bag.
        per_sample_weights: `[N]`, factors of the rows; only with `offsets` and the mode `sum`.
        mode: `sum`, `mean` or `max`.
        include_last_offset: True if `offsets` has one more element, the end of the last bag.
        padding_idx: a row that is in no bag.

    Returns:
        `[B, D]`. An empty bag gives zeros.
    """
    if mode not in ("sum", "mean", "max"):
        raise InvalidCallError(f"mode is {mode!r}, not sum, mean or max")
    rows = functional.embedding(input, weight).to(opmath_type(weight.dtype))
    kept = torch.ones_like(input, dtype=torch.bool) if padding_idx is None else input != padding_idx
    if offsets is None:
        result = _reduce_equal_bags(rows, kept, mode)
    else:
        if per_sample_weights is not None:
            rows = rows * per_sample_weights.to(rows.dtype).unsqueeze(-1)
        starts = offsets[:-1] if include_last_offset else offsets
        result = _reduce_bags(rows, kept, starts, mode)
    return result.to(weight.dtype)


def _reduce_equal_bags(rows: Tensor, kept: Tensor, mode: str) -> Tensor:
    counts = kept.sum(1, keepdim=True)
    if mode == "max":
        greatest = rows.masked_fill(~kept.unsqueeze(-1), -torch.inf).amax(1)
        return torch.where(counts > 0, greatest, 0.0)
    total = torch.where(kept.unsqueeze(-1), rows, 0.0).sum(1)
    return total / counts.clamp(min=1) if mode == "mean" else total


def _reduce_bags(rows: Tensor, kept: Tensor, starts: Tensor, mode: str) -> Tensor:
    bags, width = starts.size(0), rows.size(1)
    # The number of bags that start at each row. An empty bag starts at the same row as the next.
    starting = starts.new_zeros(rows.size(0) + 1).index_add(0, starts, torch.ones_like(starts))
    bag = starting.cumsum(0)[:-1] - 1
    counts = torch.zeros(bags, dtype=rows.dtype, device=rows.device)
    counts = counts.index_add(0, bag, kept.to(rows.dtype)).unsqueeze(-1)
    if mode == "max":
        lowest = torch.full((bags, width), -torch.inf, dtype=rows.dtype, device=rows.device)
        filled = rows.masked_fill(~kept.unsqueeze(-1), -torch.inf)
        indices = bag.to(torch.int64).unsqueeze(-1).expand(filled.shape)
        greatest = lowest.scatter_reduce(0, indices, filled, "amax", include_self=True)
        return torch.where(counts > 0, greatest, 0.0)
    zeros = torch.zeros(bags, width, dtype=rows.dtype, device=rows.device)
    total = zeros.index_add(0, bag, torch.where(kept.unsqueeze(-1), rows, 0.0))
    return total / counts.clamp(min=1) if mode == "mean" else total


def adapt_embedding_bag(
    composite: Callable[..., Tensor],
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Adapt torch.nn.functional.embedding_bag."""
    if max_norm is not None or scale_grad_by_freq or sparse:
        raise UnsupportedCallError("max_norm, scale_grad_by_freq or sparse is set")
    _check(input, offsets, mode, per_sample_weights)
    if input.numel() == 0 or (include_last_offset and offsets is None):
        raise UnsupportedCallError("input is empty, or include_last_offset has no offsets")
    if padding_idx is not None and padding_idx < 0:
        padding_idx += weight.size(0)
    if per_sample_weights is not None and offsets is None:
        offsets = torch.arange(0, input.numel(), input.size(1), device=input.device)
        input, per_sample_weights = input.reshape(-1), per_sample_weights.reshape(-1)
    return composite(
        weight,
        input,
        offsets,
        per_sample_weights,
        mode=mode,
        include_last_offset=include_last_offset,
        padding_idx=padding_idx,
    )


def _check(
    input: Tensor, offsets: Tensor | None, mode: str, per_sample_weights: Tensor | None
) -> None:
    """Refuse calls that PyTorch rejects, so that PyTorch raises its own error."""
    if input.dim() != (2 if offsets is None else 1) or (offsets is not None and offsets.dim() != 1):
        raise UnsupportedCallError("input is not [B, N], or [N] with offsets")
    if per_sample_weights is not None and (
        mode != "sum" or per_sample_weights.shape != input.shape
    ):
        raise UnsupportedCallError("per_sample_weights needs mode='sum' and the shape of input")
