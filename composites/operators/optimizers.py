"""Optimizer updates of one parameter tensor, and the way to them from torch.optim.

Values that change from step to step are operands: as attributes they would make another graph of
every step. They are computed on the host in double precision, or on the device where the step is
counted there (`capturable=True`), as torch.optim does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from composites.errors import UnsupportedCallError
from composites.operators.opmath import opmath_type

Update = Callable[..., Sequence[Tensor]]


def adam_update(
    param: Tensor,
    grad: Tensor,
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
    step_size: Tensor,
    bias_correction2_sqrt: Tensor,
    decay: Tensor,
    max_exp_avg_sq: Tensor | None = None,
    *,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
    capturable: bool = False,
) -> list[Tensor]:
    """One step of Adam (Kingma and Ba, 2015) or AdamW (Loshchilov and Hutter, 2019).

    The operations and their order are those of `torch.optim.Adam`, whose bits they give.

    Args:
        param, grad, exp_avg, exp_avg_sq, max_exp_avg_sq: of one shape; the last one with AMSGrad.
        step_size: 0-d, `lr / (1 - beta1^t)`; like `param`, or like the step count if `capturable`.
        bias_correction2_sqrt: 0-d, likewise, `sqrt(1 - beta2^t)`.
        decay: 0-d, f32 or f64, `1 - lr * weight_decay` with decoupled weight decay, else 1.
            torch_xla rounds the factors of half-precision products no further than that.
        weight_decay: L2 penalty that is added to the gradient; 0 with decoupled weight decay.
        capturable: compute the same in the order of `torch.optim.Adam(capturable=True)`.

    Returns:
        New `param`, `exp_avg`, `exp_avg_sq`, and `max_exp_avg_sq` with AMSGrad.
    """
    if maximize:
        grad = -grad
    param = (param.to(decay.dtype) * decay).to(param.dtype)
    if weight_decay != 0:
        grad = grad.add(param, alpha=weight_decay)
    exp_avg = exp_avg.lerp(grad, 1 - beta1)
    exp_avg_sq = (exp_avg_sq * beta2).addcmul(grad, grad, value=1 - beta2)
    largest = exp_avg_sq
    if max_exp_avg_sq is not None:
        largest = torch.maximum(max_exp_avg_sq, exp_avg_sq)
    if capturable:
        negative = -step_size
        denominator = largest.sqrt() / (bias_correction2_sqrt * negative) + eps / negative
        param = param + exp_avg / denominator
    else:
        denominator = largest.sqrt() / bias_correction2_sqrt + eps
        # A sum of two products: which of them is fused with it depends on how it is written.
        param = param + exp_avg / denominator * -step_size
    updated = [param, exp_avg, exp_avg_sq]
    return updated if max_exp_avg_sq is None else [*updated, largest]


def sgd_update(
    param: Tensor,
    grad: Tensor,
    lr: Tensor,
    momentum_buffer: Tensor | None = None,
    *,
    momentum: float,
    dampening: float,
    weight_decay: float,
    nesterov: bool,
    maximize: bool,
) -> list[Tensor]:
    """One step of stochastic gradient descent, with the momentum of `torch.optim.SGD`.

    Args:
        param, grad, momentum_buffer: of one shape; no buffer in the first step.
        lr: 0-d like `param`, the learning rate.

    Returns:
        New `param`, and the new buffer where `momentum` is not 0.
    """
    if maximize:
        grad = -grad
    if weight_decay != 0:
        grad = grad.add(param, alpha=weight_decay)
    buffer = grad
    if momentum != 0:
        if momentum_buffer is None:
            buffer = grad.clone()  # a result of its own
        else:
            buffer = (momentum_buffer * momentum).add(grad, alpha=1 - dampening)
        grad = grad.add(buffer, alpha=momentum) if nesterov else buffer
    param = param + grad * -lr
    return [param, buffer] if momentum != 0 else [param]


def adamw(
    composite: Update, *arguments: Any, decoupled_weight_decay: bool, **keywords: Any
) -> None:
    """`torch.optim.AdamW` without `foreach` or `fused`, which is its choice for XLA tensors."""
    if not decoupled_weight_decay:
        raise UnsupportedCallError("this is Adam")
    _adam(composite, *arguments, decoupled=True, **keywords)


def adam(composite: Update, *arguments: Any, decoupled_weight_decay: bool, **keywords: Any) -> None:
    """`torch.optim.Adam`, likewise."""
    if decoupled_weight_decay:
        raise UnsupportedCallError("this is AdamW")
    _adam(composite, *arguments, decoupled=False, **keywords)


def _adam(
    composite: Update,
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    max_exp_avg_sqs: list[Tensor],
    state_steps: list[Tensor],
    grad_scale: Tensor | None,
    found_inf: Tensor | None,
    *,
    amsgrad: bool,
    has_complex: bool,
    beta1: float | Tensor,
    beta2: float | Tensor,
    lr: float | Tensor,
    weight_decay: float,
    eps: float,
    maximize: bool,
    capturable: bool,
    differentiable: bool,
    decoupled: bool,
) -> None:
    numbers = (beta1, beta2, lr, weight_decay, eps)
    counted_on = {step.device.type for step in state_steps}
    if (
        differentiable
        or has_complex
        or grad_scale is not None
        or found_inf is not None
        or any(isinstance(number, Tensor) for number in numbers)
        or counted_on != ({param.device.type for param in params} if capturable else {"cpu"})
    ):
        raise UnsupportedCallError("only plain numbers, and steps counted where they should be")
    scalars = _Scalars()
    steps: list[Tensor] = []
    updates: list[Sequence[Tensor]] = []
    # Everything is computed before anything is written: a call that turns out to take the stock
    # route must find its tensors as they were.
    for i, param in enumerate(params):
        steps.append(state_steps[i] + 1)
        step: Any = steps[i] if capturable else steps[i].item()
        bias_correction2 = 1 - beta2**step
        root = bias_correction2.sqrt() if capturable else bias_correction2**0.5
        updates.append(
            composite(
                param,
                grads[i],
                exp_avgs[i],
                exp_avg_sqs[i],
                scalars.tensor(lr / (1 - beta1**step), param),
                scalars.tensor(root, param),
                scalars.tensor(1 - lr * weight_decay if decoupled else 1, param, wide=True),
                max_exp_avg_sqs[i] if amsgrad else None,
                beta1=beta1,
                beta2=beta2,
                eps=eps,
                weight_decay=0.0 if decoupled else float(weight_decay),
                maximize=maximize,
                capturable=capturable,
            )
        )
    for i, updated in enumerate(updates):
        state_steps[i].copy_(steps[i])
        _write((params[i], exp_avgs[i], exp_avg_sqs[i], *max_exp_avg_sqs[i : i + 1]), updated)


def sgd(
    composite: Update,
    params: list[Tensor],
    grads: list[Tensor],
    momentum_buffer_list: list[Tensor | None],
    grad_scale: Tensor | None,
    found_inf: Tensor | None,
    *,
    weight_decay: float,
    momentum: float,
    lr: float | Tensor,
    dampening: float,
    nesterov: bool,
    maximize: bool,
    has_sparse_grad: bool,
) -> None:
    """`torch.optim.SGD` without `foreach` or `fused`, which is its choice for XLA tensors."""
    numbers = (weight_decay, momentum, lr, dampening)
    if (
        has_sparse_grad
        or grad_scale is not None
        or found_inf is not None
        or any(isinstance(number, Tensor) for number in numbers)
        or any(param.is_complex() for param in params)
    ):
        raise UnsupportedCallError("only plain numbers, real parameters and dense gradients")
    scalars = _Scalars()
    updates = [
        composite(
            param,
            grads[i],
            scalars.tensor(lr, param),
            momentum_buffer_list[i] if momentum != 0 else None,
            momentum=float(momentum),
            dampening=float(dampening),
            weight_decay=float(weight_decay),
            nesterov=nesterov,
            maximize=maximize,
        )
        for i, param in enumerate(params)
    ]
    for i, (param, updated) in enumerate(zip(params, updates, strict=True)):
        param.copy_(updated[0])
        if momentum != 0:
            buffer = momentum_buffer_list[i]
            if buffer is None:
                momentum_buffer_list[i] = updated[1]
            else:
                buffer.copy_(updated[1])


class _Scalars:
    """0-d tensors of one step: parameters mostly have the same ones."""

    def __init__(self) -> None:
        self._made: dict[tuple[float, torch.dtype, torch.device], Tensor] = {}

    def tensor(self, value: Any, like: Tensor, *, wide: bool = False) -> Tensor:
        """The number in the dtype of a parameter, or the one that products are computed in; what is
        computed on the device stays as it is."""
        dtype = opmath_type(like.dtype) if wide else like.dtype
        if isinstance(value, Tensor):
            return value
        key = (float(value), dtype, like.device)
        if key not in self._made:
            self._made[key] = torch.full((), key[0], dtype=dtype, device=like.device)
        return self._made[key]


def _write(tensors: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    for tensor, value in zip(tensors, values, strict=True):
        tensor.copy_(value)
