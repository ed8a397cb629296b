"""Adafactor: the update of one parameter tensor, and the adapter from torch.optim.

torch.optim.Adafactor copies two norms of each parameter from the device to the host in every step,
where Python uses double precision. The composite keeps the norms on the device, in f32.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from composites.errors import UnsupportedCallError
from composites.in_place import InPlace, Written
from composites.operators.opmath import opmath_type
from composites.operators.optimizers import Scalars, check_supported


def adafactor_update(
    param: Tensor,
    grad: Tensor,
    rho: Tensor,
    one_minus_beta2: Tensor,
    decay: Tensor,
    row_var: Tensor,
    col_var: Tensor | None = None,
    *,
    d: float,
    eps1: float,
    eps2: float,
    maximize: bool,
) -> list[Tensor]:
    """One step of Adafactor (Shazeer and Stern, 2018), as torch.optim.Adafactor computes it.

    Args:
        param, grad: tensors of the same shape.
        rho: 0-d, f32 or f64; the relative step size, `min(lr, 1 / sqrt(t))`.
        one_minus_beta2: 0-d, of the same dtype; `t ** beta2_decay`.
        decay: 0-d, of the same dtype; `1 - lr * weight_decay`.
        row_var: the row factor of the second moments, of size 1 in the last dimension. Without
            `col_var`, the second moments themselves, with the shape of `grad`.
        col_var: the column factor, of size 1 in the second to last dimension; absent for a vector
            or a scalar.
        d: the clipping threshold of the update.
        eps1: the lower bound of the square root of a second moment.
        eps2: the lower bound of the root mean square of `param`, by which the step is scaled.

    Returns:
        New `param` and `row_var`, and new `col_var` if it is present.
    """
    wide = decay.dtype
    if maximize:
        grad = -grad
    alpha = (_norm(param).to(wide) / param.numel() ** 0.5).clamp(min=eps2) * rho
    param = (param.to(wide) * decay).to(param.dtype)
    if col_var is None:
        row_var = _toward(row_var, grad * grad, one_minus_beta2)
        variance = row_var
    else:
        row_var = _toward(row_var, _mean_square(grad, -1), one_minus_beta2)
        col_var = _toward(col_var, _mean_square(grad, -2), one_minus_beta2)
        variance = row_var @ col_var / row_var.mean(dim=-2, keepdim=True).clamp(min=eps1)
    update = variance.clamp(min=eps1 * eps1).rsqrt() * grad
    clip = (_norm(update).to(wide) / (update.numel() ** 0.5 * d)).clamp(min=1)
    param = (param.to(wide) - update.to(wide) * (alpha / clip)).to(param.dtype)
    return [param, row_var] if col_var is None else [param, row_var, col_var]


def _norm(tensor: Tensor, dim: int | None = None) -> Tensor:
    """torch.norm with an f32 sum for half precision, as in PyTorch but not in torch_xla."""
    wide = tensor.to(opmath_type(tensor.dtype))
    norm: Tensor = wide.norm(2) if dim is None else wide.norm(2, dim=dim, keepdim=True)
    return norm.to(tensor.dtype)


def _mean_square(grad: Tensor, dim: int) -> Tensor:
    return _norm(grad, dim).square() / grad.size(dim)


def _toward(start: Tensor, end: Tensor, weight: Tensor) -> Tensor:
    """`start.lerp(end, weight)`, with a weight of a wider type than the tensors."""
    wide = start.to(weight.dtype)
    return (wide + (end.to(weight.dtype) - wide) * weight).to(start.dtype)


def adafactor(
    composite: Callable[..., Sequence[Tensor]],
    params: list[Tensor],
    grads: list[Tensor],
    row_vars: list[Tensor | None],
    col_vars: list[Tensor | None],
    variances: list[Tensor | None],
    state_steps: list[Tensor],
    grad_scale: Tensor | None,
    found_inf: Tensor | None,
    *,
    d: float,
    lr: float | Tensor,
    beta2_decay: float,
    weight_decay: float,
    eps1: float | None,
    eps2: float,
    maximize: bool,
    has_complex: bool,
) -> InPlace:
    """Adapt `torch.optim.Adafactor` without `foreach`, the default. Step counts on the device stay
    on the device."""
    numbers = (d, lr, beta2_decay, weight_decay, eps1, eps2)
    check_supported(params, numbers, (grad_scale, found_inf))
    if any(param.numel() == 0 for param in params):
        raise UnsupportedCallError("some parameters have no elements")
    scalars = Scalars()
    steps: list[Tensor] = []
    states: list[list[Tensor]] = []
    updates: list[Sequence[Tensor]] = []
    # Everything is computed before anything is written: if the call falls back to the stock
    # lowering, its tensors must be unchanged.
    for i, param in enumerate(params):
        if eps1 is None:  # as in PyTorch, the first parameter decides for the whole group
            eps1 = torch.finfo(param.dtype).eps
        moments = (row_vars[i], col_vars[i]) if grads[i].dim() > 1 else (variances[i],)
        states.append([tensor for tensor in moments if tensor is not None])
        steps.append(state_steps[i] + 1)
        rho, one_minus_beta2 = _schedule(steps[i], lr, beta2_decay, param)
        updates.append(
            composite(
                param,
                grads[i],
                scalars.tensor(rho, param, wide=True),
                scalars.tensor(one_minus_beta2, param, wide=True),
                scalars.tensor(1 - lr * weight_decay, param, wide=True),
                *states[i],
                d=float(d),
                eps1=eps1,
                eps2=eps2,
                maximize=maximize,
            )
        )
    for state_step, step in zip(state_steps, steps, strict=True):
        state_step.copy_(step)
    targets = ((param, *state) for param, state in zip(params, states, strict=True))
    return InPlace([*map(Written, targets, updates)], grads)


def _schedule(step: Tensor, lr: Any, beta2_decay: float, param: Tensor) -> tuple[Any, Any]:
    """`min(lr, 1 / sqrt(t))` and `t ** beta2_decay`, on the device of the step count."""
    if step.device.type == "cpu":
        count = step.item()
        return min(lr, 1 / count**0.5), count**beta2_decay
    counted = step.to(opmath_type(param.dtype))
    return counted.rsqrt().clamp(max=lr), counted**beta2_decay
