"""Adam and AdamW for all parameters at once, and the adapters from torch.optim."""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from composites.errors import UnsupportedCallError
from composites.in_place import InPlace, Written
from composites.operators.optimizers import AdamCall, Scalars, Update, adam_update


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
    """One step of Adam or AdamW for parameters with the same dtype and the same step count.

    Args:
        params, grads, exp_avgs, exp_avg_sqs: lists of the same length.
        max_exp_avg_sqs: a list of the same length, or an empty list without AMSGrad.

    For the other arguments see `adam_update`.

    Returns:
        New `params`, `exp_avgs`, `exp_avg_sqs` and `max_exp_avg_sqs`, concatenated.
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


def _fused(composite: Update, *arguments: Any, decoupled: bool, **keywords: Any) -> InPlace:
    """Adapt `torch.optim.AdamW` or `torch.optim.Adam`, with any `foreach`."""
    call = AdamCall(*arguments, **keywords)
    call.check(decoupled=decoupled)
    if call.capturable or call.differentiable:
        raise UnsupportedCallError("capturable or differentiable is True")
    groups: dict[tuple[torch.dtype, float], list[int]] = {}
    for i, param in enumerate(call.params):
        groups.setdefault((param.dtype, call.state_steps[i].item() + 1), []).append(i)
    scalars = Scalars()
    updates: list[Written] = []
    # Everything is computed before anything is written: if the call falls back to the stock
    # lowering, its tensors must be unchanged.
    for (_, step), members in groups.items():
        updated = composite(
            [call.params[i] for i in members],
            [call.grads[i] for i in members],
            [call.exp_avgs[i] for i in members],
            [call.exp_avg_sqs[i] for i in members],
            [call.max_exp_avg_sqs[i] for i in members] if call.amsgrad else [],
            *call.scalars(scalars, step, call.params[members[0]]),
            **call.attributes,
        )
        targets = [state[i] for state in call.states for i in members]
        updates.append(Written(targets, updated, parameters=len(members)))
    for step_count in call.state_steps:
        step_count.add_(1)
    return InPlace(updates, call.grads)


fused_adamw, fused_adam = partial(_fused, decoupled=True), partial(_fused, decoupled=False)
