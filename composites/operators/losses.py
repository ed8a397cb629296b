"""Losses. `reduction` is a number from `composites.operators.aten_enums`."""

from typing import Any

import torch
from torch import Tensor

from composites.errors import UnsupportedCallError
from composites.operators.aten_enums import MEAN, SUM
from composites.operators.opmath import check_same_dtype, opmath_type


def huber_loss(self: Tensor, target: Tensor, reduction: int = MEAN, delta: float = 1.0) -> Tensor:
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
    if reduction == MEAN:
        loss = loss.mean()
    elif reduction == SUM:
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
    if reduction == MEAN:
        grad = grad / self.numel()
    return grad.to(self.dtype)


def cross_entropy_with_sums(
    self: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: int = MEAN,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """`aten::cross_entropy_loss` of `[N, C]` logits and `[N]` classes without label smoothing, with
    the bits of the stock lowering, and `row_maxima` and `row_log_sums`.

    Both are intermediate values of the loss. With the stock lowering they are computed twice: it
    starts its maxima from minus infinity, and `amax` from the lowest finite number, so XLA merges
    neither the maxima nor the operations that follow. If all logits of a row are minus infinity, so
    is the logarithm, and the log-probabilities are NaN, as in the stock lowering.

    Any other operation between these, such as a `where`, makes XLA:CPU (torch_xla 2.9) fuse them
    differently and add in another order, from about 100 classes.
    """
    maxima = torch.amax(self, 1)
    shifted = self - maxima.unsqueeze(1)
    log_sums = torch.log(torch.exp(shifted).sum(1))
    logs = shifted - log_sums.unsqueeze(1)
    loss = torch.ops.aten.nll_loss_nd(logs, target, weight, reduction, ignore_index)
    return loss, maxima, log_sums


def row_maxima(self: Tensor, *_: Any, **__: Any) -> Tensor:
    """The greatest logit of each row, which `aten::cross_entropy_loss` saves for its backward.

    Args:
        self: logits `[N, C, …]`, or `[C]`.

    Returns:
        `[N, …]`, or a scalar; f32 if the logits are f16 or bf16.
    """
    return torch.amax(self, _dimension_of_classes(self)).to(opmath_type(self.dtype))


def row_log_sums(self: Tensor, *_: Any, **__: Any) -> Tensor:
    """The logarithm of the sum of exp(logit - maximum) of each row; for rows see `row_maxima`.

    With both, a backward computes log-probabilities with the bits of the stock lowering, as
    `(self - maximum) - log_sum`.
    """
    classes = _dimension_of_classes(self)
    logits = self.to(opmath_type(self.dtype))
    shifted = logits - torch.amax(logits, classes).unsqueeze(classes)
    return torch.log(torch.exp(shifted).sum(classes))


def cross_entropy_backward(
    grad_output: Tensor,
    self: Tensor,
    target: Tensor,
    maxima: Tensor,
    log_sums: Tensor,
    reduction: int,
    ignore_index: int,
) -> Tensor:
    """The gradient of `aten::cross_entropy_loss` for the logits, with the bits of the stock
    lowering, without class weights and label smoothing.

    The stock lowering multiplies and adds one-hot rows of the logits' size. All but one number of
    such a row are zero, so this function uses only that number and zero. Zeros keep their sign.

    Args:
        grad_output: a scalar, or `[N]` if there is no reduction.
        self: `[N, C]`.
        target: `[N]`, classes.
        maxima, log_sums: `[N]`.

    Returns:
        `[N, C]`.
    """
    # torch_xla computes `&` of booleans in u8, which not every compiler can compare.
    valid = torch.where(target != ignore_index, target, torch.full_like(target, -1))
    counted = valid == valid.clamp(0, self.size(1) - 1)
    grad_others = -grad_output * 0.0  # also for the class of an ignored row
    grad_class = torch.where(counted, -grad_output, grad_others)
    if reduction == MEAN:
        count = counted.to(self.dtype).sum()
        count = torch.where(count != 0, count, torch.ones_like(count))
        grad_class, grad_others = grad_class / count, grad_others / count
    # Expanded to the size of the logits: devices that share the classes then communicate one number
    # per row, instead of one of `grad_class` and one of `sums`.
    grad_class = grad_class.unsqueeze(1).expand_as(self)
    # The sums of the stock lowering have no -0.
    sums = torch.where(grad_class != 0, grad_class, torch.zeros_like(grad_class))
    chosen = target.unsqueeze(1) == torch.arange(self.size(1), device=self.device)
    grad_logs = torch.where(chosen, grad_class, grad_others.unsqueeze(-1))
    logs = (self - maxima.unsqueeze(1)) - log_sums.unsqueeze(1)
    return grad_logs - torch.exp(logs) * sums


def _dimension_of_classes(logits: Tensor) -> int:
    dimension = min(logits.dim(), 2) - 1
    if logits.size(dimension) == 0:
        raise UnsupportedCallError("there are no classes")
    return dimension
