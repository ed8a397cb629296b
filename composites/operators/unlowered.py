"""Decompositions of operators that torch_xla does not lower, where PyTorch has none that ends in
other operators. Exports take them. An operator that is worth a kernel has an entry instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def exp2(self: Tensor) -> Tensor:
    return torch.pow(2.0, self)


def fmax(self: Tensor, other: Tensor) -> Tensor:
    greater = torch.maximum(self, other)
    return torch.where(self.isnan(), other, torch.where(other.isnan(), self, greater))


def fmin(self: Tensor, other: Tensor) -> Tensor:
    smaller = torch.minimum(self, other)
    return torch.where(self.isnan(), other, torch.where(other.isnan(), self, smaller))


def hypot(self: Tensor, other: Tensor) -> Tensor:
    """The larger one is factored out, so that no square is out of range. With an infinite one the
    result is infinite, whatever the other is."""
    larger = torch.maximum(self.abs(), other.abs())
    ratio = torch.minimum(self.abs(), other.abs()) / larger
    length = torch.where(larger == 0, larger, larger * (1 + ratio * ratio).sqrt())
    return torch.where(self.isinf() | other.isinf(), torch.inf, length)


def signbit(self: Tensor) -> Tensor:
    """A NaN counts as positive."""
    if not self.is_floating_point():
        return self < 0
    return (self < 0) | ((self == 0) & (self.reciprocal() < 0))


def addbmm(
    self: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    product = torch.bmm(batch1, batch2).sum(0) * alpha
    return product if beta == 0 else self * beta + product


def unfold(self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """`Tensor.unfold`, as a gather."""
    whole = self.reshape(1) if self.dim() == 0 else self
    dimension %= whole.dim()
    count = (whole.size(dimension) - size) // step + 1
    starts = torch.arange(count, device=self.device).unsqueeze(1) * step
    places = starts + torch.arange(size, device=self.device)
    taken = whole.index_select(dimension, places.reshape(-1))
    shape = (*whole.shape[:dimension], count, size, *whole.shape[dimension + 1 :])
    parts = taken.reshape(shape).movedim(dimension + 1, -1)
    return parts.reshape(size) if self.dim() == 0 else parts


def weight_norm_backward(
    grad_w: Tensor, saved_v: Tensor, saved_g: Tensor, saved_norms: Tensor, dim: int
) -> Any:
    norms = saved_norms.to(saved_g.dtype)
    return aten._weight_norm_differentiable_backward(grad_w, saved_v, saved_g, norms, dim)


DECOMPOSITIONS: Mapping[Any, Callable[..., Any]] = MappingProxyType(
    {
        aten.exp2.default: exp2,
        aten.fmax.default: fmax,
        aten.fmin.default: fmin,
        aten.hypot.default: hypot,
        aten.signbit.default: signbit,
        aten.addbmm.default: addbmm,
        aten.unfold_copy.default: unfold,
        aten._weight_norm_interface_backward.default: weight_norm_backward,
    }
)
"""By overload."""
