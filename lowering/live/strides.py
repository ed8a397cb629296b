"""The order in which the dimensions of a tensor lie in memory.

Programs of XLA take and return arrays whose dimensions lie in order. A transposed tensor is passed
and returned with its dimensions in the order of memory, and the program transposes it.
"""

from typing import TypeAlias

import torch

Order: TypeAlias = tuple[int, ...] | None
"""Dimensions by descending stride; None if they lie in order in memory, or have gaps."""


def memory_order(tensor: torch.Tensor) -> Order:
    """The order of the dimensions of a tensor, which can be a fake tensor."""
    if tensor.is_contiguous():
        return None
    strides = tensor.stride()
    order = tuple(sorted(range(tensor.dim()), key=lambda dim: -int(strides[dim])))
    return order if tensor.permute(order).is_contiguous() else None


def in_memory_order(tensor: torch.Tensor, order: Order) -> torch.Tensor:
    """A view of a tensor with its dimensions in an order."""
    return tensor if order is None else tensor.permute(order)


def in_own_order(tensor: torch.Tensor, order: Order) -> torch.Tensor:
    """Undo `in_memory_order`."""
    if order is None:
        return tensor
    return tensor.permute(sorted(range(len(order)), key=order.__getitem__))
