"""Indexing by a tensor."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from composites.errors import UnsupportedCallError


def index(self: Tensor, index: Tensor, *, dim: int) -> Tensor:
    """Select rows of dimension `dim` by their indices; -1 is the last row.

    Args:
        index: any shape, integers; its dimensions replace `dim` in the result.
    """
    return self[(slice(None),) * dim + (index,)]


def by_one_tensor(
    composite: Callable[..., Tensor], self: Tensor, indices: Sequence[Tensor | None]
) -> Tensor:
    """Adapt aten::index, which takes a tensor or None for each dimension."""
    indexed = [(dim, tensor) for dim, tensor in enumerate(indices) if tensor is not None]
    if len(indexed) != 1:
        raise UnsupportedCallError(f"{len(indexed)} dimensions are indexed")
    dim, tensor = indexed[0]
    if tensor.dtype in (torch.bool, torch.uint8):
        raise UnsupportedCallError("the size of the result depends on the data")
    return composite(self, tensor, dim=dim)
