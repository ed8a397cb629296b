"""Muon: the update of one matrix, its orthogonalization, and the adapter from torch.optim."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from composites.errors import UnsupportedCallError
from composites.in_place import InPlace, Written
from composites.operators.optimizers import Scalars, check_supported


def zeropower_via_newtonschulz(
    grad: Tensor, ns_coefficients: Sequence[float], ns_steps: int, eps: float
) -> Tensor:
    """A matrix near the orthogonal factor of `grad`, by Newton-Schulz iterations in bf16.

    Jordan, "Muon: An optimizer for hidden layers in neural networks" (2024), as torch.optim.Muon
    computes it: X is `grad` divided by its norm, and transposed if it is tall. Each iteration
    replaces X by `a X + (b A + c A²) X`, with `A = X Xᵀ`.

    Args:
        grad: `[M, N]`, floating point.
        ns_coefficients: a, b and c.
        ns_steps: the number of iterations, less than 100.
        eps: the lower bound of the norm.

    Returns:
        `[M, N]`, bf16.
    """
    a, b, c = ns_coefficients
    is_tall = grad.size(0) > grad.size(1)
    x = grad.to(torch.bfloat16)
    x = x.T if is_tall else x
    # torch_xla would sum the squares in bf16, and PyTorch sums them in f32.
    x = x / x.to(torch.float32).norm().to(torch.bfloat16).clamp(min=eps)
    for _ in range(ns_steps):
        gram = x @ x.T
        update = _add_product(gram, gram, gram, beta=b, alpha=c)
        x = _add_product(x, update, x, beta=a, alpha=1)
    return x.T.contiguous() if is_tall else x


def _add_product(
    addend: Tensor, left: Tensor, right: Tensor, *, beta: float, alpha: float
) -> Tensor:
    """torch.addmm; torch_xla computes it on the CPU if beta is not 1."""
    product = (left @ right).to(torch.float32)
    return (addend.to(torch.float32) * beta + product * alpha).to(addend.dtype)


def muon_update(
    param: Tensor,
    grad: Tensor,
    momentum_buffer: Tensor,
    step_size: Tensor,
    decay: Tensor,
    *,
    momentum: float,
    nesterov: bool,
    ns_coefficients: Sequence[float],
    ns_steps: int,
    eps: float,
) -> list[Tensor]:
    """One step of Muon.

    Args:
        param, grad, momentum_buffer: `[M, N]`, of the same shape.
        step_size: 0-d, f32 or f64; the learning rate, adjusted to the shape of the matrix.
        decay: 0-d, f32 or f64; `1 - lr * weight_decay`.
        momentum: the weight of the old momentum in the new momentum.
        ns_coefficients, ns_steps, eps: arguments of `zeropower_via_newtonschulz`.

    Returns:
        New `param` and `momentum_buffer`.
    """
    buffer = momentum_buffer.lerp(grad, 1 - momentum)
    direction = grad.lerp(buffer, momentum) if nesterov else buffer
    update = zeropower_via_newtonschulz(direction, ns_coefficients, ns_steps, eps)
    wide = decay.dtype
    decayed = (param.to(wide) * decay).to(param.dtype)
    return [(decayed.to(wide) + update.to(wide) * -step_size).to(param.dtype), buffer]


def muon(
    composite: Callable[..., Sequence[Tensor]],
    params: list[Tensor],
    grads: list[Tensor],
    muon_momentum_bufs: list[Tensor],
    *,
    lr: float | Tensor,
    weight_decay: float,
    momentum: float,
    nesterov: bool,
    ns_coefficients: tuple[float, float, float],
    ns_steps: int,
    eps: float,
    adjust_lr_fn: str | None,
    has_complex: bool,
) -> InPlace:
    """Adapt `torch.optim.Muon`."""
    check_supported(params, (lr, weight_decay, momentum, eps))
    if any(grad.dim() != 2 for grad in grads) or ns_steps >= 100 or len(ns_coefficients) != 3:
        raise UnsupportedCallError("torch.optim.Muon refuses the call")
    scalars = Scalars()
    updates = [
        composite(
            param,
            grads[i],
            muon_momentum_bufs[i],
            scalars.tensor(_adjusted(lr, adjust_lr_fn, param), param, wide=True),
            scalars.tensor(1 - lr * weight_decay, param, wide=True),
            momentum=float(momentum),
            nesterov=nesterov,
            ns_coefficients=list(ns_coefficients),
            ns_steps=ns_steps,
            eps=eps,
        )
        for i, param in enumerate(params)
    ]
    targets = zip(params, muon_momentum_bufs, strict=True)
    return InPlace([*map(Written, targets, updates)], grads)


def _adjusted(lr: Any, adjust_lr_fn: str | None, param: Tensor) -> float:
    """Adjust the learning rate to the shape of a matrix."""
    rows, columns = param.shape[:2]
    if adjust_lr_fn in (None, "original"):
        return float(lr * math.sqrt(max(1, rows / columns)))
    if adjust_lr_fn == "match_rms_adamw":
        return float(lr * (0.2 * math.sqrt(max(rows, columns))))
    raise UnsupportedCallError(f"adjust_lr_fn is {adjust_lr_fn!r}")
