"""Losses. `reduction` is PyTorch's number (`at::Reduction`): 0 none, 1 mean, 2 sum."""

from __future__ import annotations

import torch
from torch import Tensor

from composites.errors import UnsupportedCallError
from composites.operators.opmath import check_same_dtype, opmath_type

_MEAN, _SUM = 1, 2


def huber_loss(self: Tensor, target: Tensor, reduction: int = 1, delta: float = 1.0) -> Tensor:
    """Huber loss, by the formula of torch.nn.HuberLoss, with z = |self - target|:

        0.5 * z²                   where z <= delta
        delta * (z - 0.5 * delta)  elsewhere

    Shapes: self and target broadcast to (…); the result is (…), or a scalar if reduced.
    """
    check_same_dtype(self, target)
    if delta <= 0:
        raise UnsupportedCallError(f"delta must be positive, not {delta}")
    opmath = opmath_type(self.dtype)
    z = (self.to(opmath) - target.to(opmath)).abs()
    loss = torch.where(z <= delta, 0.5 * z * z, delta * (z - 0.5 * delta))
    if reduction == _MEAN:
        loss = loss.mean()
    elif reduction == _SUM:
        loss = loss.sum()
    return loss.to(self.dtype)


def huber_loss_backward(
    grad_output: Tensor, self: Tensor, target: Tensor, reduction: int, delta: float
) -> Tensor:
    """Gradient of the Huber loss with respect to `self`, the derivative of `huber_loss`:

        grad_output * clamp(self - target, -delta, delta)

    divided by the number of elements if `reduction` is the mean.

    Shapes: self, target and the result (…); grad_output (…), or a scalar if reduced.
    """
    check_same_dtype(self, target, grad_output)
    if self.numel() == 0:
        # PyTorch's meta kernel divides by the number of elements.
        raise UnsupportedCallError("there are no elements")
    opmath = opmath_type(self.dtype)
    slope = (self.to(opmath) - target.to(opmath)).clamp(-delta, delta)
    grad = grad_output.to(opmath) * slope
    if reduction == _MEAN:
        grad = grad / self.numel()
    return grad.to(self.dtype)
