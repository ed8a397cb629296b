"""Adam and AdamW for all parameters at once, and the adapters from torch.optim."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from composites.errors import UnsupportedCallError
from composites.in_place import InPlace, Written
from composites.operators.optimizers import (
    Scalars,
    adam_update,
    require_own_memory,
    require_plain,
)


def fused_adam_update(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    max_exp_avg_sqs: list[Tensor],
    step_size: Tensor,
    bias_correction2_sqrt: Tensor,
    decay: Tensor,
    *,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> list[Tensor]:
    """One step of Adam or AdamW for parameters of one dtype that have made the same steps.

    Args:
        params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs: lists of the same length; the last
            one is empty without AMSGrad.

    The others are as for `adam_update`.

    Returns:
        New `params`, `exp_avgs`, `exp_avg_sqs` and `max_exp_avg_sqs`, one list after the other.
    """
    updates = [
        adam_update(
            param,
            grads[i],
            exp_avgs[i],
            exp_avg_sqs[i],
            step_size,
            bias_correction2_sqrt,
            decay,
            max_exp_avg_sqs[i] if max_exp_avg_sqs else None,
            beta1=beta1,
            beta2=beta2,
            eps=eps,
            weight_decay=weight_decay,
            maximize=maximize,
        )
        for i, param in enumerate(params)
    ]
    return [tensor for kind in zip(*updates, strict=True) for tensor in kind]


def fused_adamw(
    composite: Callable[..., Sequence[Tensor]],
    *arguments: Any,
    decoupled_weight_decay: bool,
    **keywords: Any,
) -> InPlace:
    """Adapt `torch.optim.AdamW`, with `foreach=True` or without."""
    if not decoupled_weight_decay:
        raise UnsupportedCallError("the call is for Adam, not AdamW")
    return _fused(composite, *arguments, decoupled=True, **keywords)


def fused_adam(
    composite: Callable[..., Sequence[Tensor]],
    *arguments: Any,
    decoupled_weight_decay: bool,
    **keywords: Any,
) -> InPlace:
    """Adapt `torch.optim.Adam`, with `foreach=True` or without."""
    if decoupled_weight_decay:
        raise UnsupportedCallError("the call is for AdamW, not Adam")
    return _fused(composite, *arguments, decoupled=False, **keywords)


def _fused(
    composite: Callable[..., Sequence[Tensor]],
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
) -> InPlace:
    require_plain(
        (beta1, beta2, lr, weight_decay, eps), (grad_scale, found_inf), has_complex=has_complex
    )
    if capturable or differentiable:
        raise UnsupportedCallError("capturable or differentiable is True")
    require_own_memory(params)
    groups: dict[tuple[torch.dtype, float], list[int]] = {}
    for i, param in enumerate(params):
        groups.setdefault((param.dtype, state_steps[i].item() + 1), []).append(i)
    states = (params, exp_avgs, exp_avg_sqs, *((max_exp_avg_sqs,) if amsgrad else ()))
    scalars = Scalars()
    updates: list[Written] = []
    # Everything is computed before anything is written: if the call falls back to the stock
    # lowering, its tensors must be unchanged.
    for (_, step), members in groups.items():
        like = params[members[0]]
        updated = composite(
            [params[i] for i in members],
            [grads[i] for i in members],
            [exp_avgs[i] for i in members],
            [exp_avg_sqs[i] for i in members],
            [max_exp_avg_sqs[i] for i in members] if amsgrad else [],
            *scalars.of_adam(step, like, beta1, beta2, lr, weight_decay if decoupled else 0),
            beta1=beta1,
            beta2=beta2,
            eps=eps,
            weight_decay=0.0 if decoupled else float(weight_decay),
            maximize=maximize,
        )
        targets = [state[i] for state in states for i in members]
        updates.append(Written(targets, updated, parameters=len(members)))
    for step_count in state_steps:
        step_count.add_(1)
    return InPlace(updates, grads)
