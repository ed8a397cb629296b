"""Optimizer updates of one parameter tensor, and the adapters from torch.optim.

Values that change from step to step are operands; as attributes, they would cause a new graph in
each step. They are computed on the host in double precision, or on the device if the step count is
on the device (`capturable=True`), as in torch.optim.
"""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor

from composites.errors import UnsupportedCallError
from composites.in_place import InPlace, Written
from composites.operators.opmath import opmath_type
from composites.torch_internals import share_memory

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

    The operations and their order are the same as in `torch.optim.Adam`, so the results are bitwise
    equal.

    Args:
        param, grad, exp_avg, exp_avg_sq, max_exp_avg_sq: tensors of the same shape;
            `max_exp_avg_sq` only with AMSGrad.
        step_size: 0-d, `lr / (1 - beta1^t)`; of the dtype of `param`, or of the step count if
            `capturable`.
        bias_correction2_sqrt: 0-d, `sqrt(1 - beta2^t)`, of the same dtype as `step_size`.
        decay: 0-d, f32 or f64; `1 - lr * weight_decay` with decoupled weight decay, otherwise 1.
            torch_xla rounds the factors of half-precision products only to f32.
        weight_decay: L2 penalty that is added to the gradient; 0 with decoupled weight decay.
        capturable: use the order of operations of `torch.optim.Adam(capturable=True)`.

    Returns:
        New `param`, `exp_avg` and `exp_avg_sq`, and new `max_exp_avg_sq` with AMSGrad.
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
        # A sum of two products. The form of the expression decides which of them XLA fuses with
        # the sum.
        param = param + exp_avg / denominator * -step_size
    updated = [param, exp_avg, exp_avg_sq]
    return updated if max_exp_avg_sq is None else [*updated, largest]


def scale_by_adam(
    grad: Tensor,
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
    bias_correction1: Tensor,
    bias_correction2: Tensor,
    bias_correction_grad: Tensor | None = None,
    *,
    beta1: float,
    beta2: float,
    eps: float,
    eps_root: float = 0.0,
) -> list[Tensor]:
    """The direction of Adam (Kingma and Ba, 2015) without a learning rate, or of Nadam (Dozat,
    2016): `optax.scale_by_adam` for one parameter.

    Args:
        grad, exp_avg, exp_avg_sq: tensors of the same shape. Their types may differ.
        bias_correction1: 0-d, `1 - beta1**t` in the step `t`, or `1 - beta1**(t + 1)` for Nadam.
        bias_correction2: 0-d, `1 - beta2**t`.
        bias_correction_grad: for Nadam; 0-d, `1 - beta1**t`.
        eps: added to the denominator.
        eps_root: added inside the square root of the denominator.

    Returns:
        The direction, which is subtracted from the parameter in proportion to the learning rate,
        and new `exp_avg` and `exp_avg_sq`, which keep their types.
    """
    average = (1 - beta1) * grad + beta1 * exp_avg
    square = (1 - beta2) * (grad * grad) + beta2 * exp_avg_sq
    mean = average / bias_correction1.to(average.dtype)
    if bias_correction_grad is not None:
        mean = beta1 * mean + (1 - beta1) * (grad / bias_correction_grad.to(grad.dtype))
    variance = square / bias_correction2.to(square.dtype)
    direction = mean / ((variance + eps_root).sqrt() + eps)
    return [direction, average.to(exp_avg.dtype), square.to(exp_avg_sq.dtype)]


def scale_by_lion(grad: Tensor, exp_avg: Tensor, *, beta1: float, beta2: float) -> list[Tensor]:
    """The direction of Lion (Chen et al., 2023) without a learning rate: `optax.scale_by_lion` for
    one parameter.

    Args:
        grad, exp_avg: tensors of the same shape. Their types may differ.

    Returns:
        The direction, which is subtracted from the parameter in proportion to the learning rate,
        and the new `exp_avg`, which keeps its type.
    """
    direction = ((1.0 - beta1) * grad + beta1 * exp_avg).sign()
    average = (1 - beta2) * grad + beta2 * exp_avg
    return [direction, average.to(exp_avg.dtype)]


def momentum_trace(grad: Tensor, trace: Tensor, *, decay: float, nesterov: bool) -> list[Tensor]:
    """The direction of momentum (Polyak, 1964) or Nesterov momentum without a learning rate:
    `optax.trace` for one parameter.

    Args:
        grad, trace: tensors of the same shape. Their types may differ.

    Returns:
        The direction, which is subtracted from the parameter in proportion to the learning rate,
        and the new `trace`, which keeps its type.
    """
    sums = grad + decay * trace
    direction = grad + decay * sums if nesterov else sums
    return [direction, sums.to(trace.dtype)]


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
        param, grad, momentum_buffer: tensors of the same shape. The first step has no buffer.
        lr: the learning rate, 0-d, of the dtype of `param`.

    Returns:
        New `param`, and the new buffer if `momentum` is not 0.
    """
    if maximize:
        grad = -grad
    if weight_decay != 0:
        grad = grad.add(param, alpha=weight_decay)
    buffer = grad
    if momentum != 0:
        if momentum_buffer is None:
            buffer = grad.clone()  # results must not share memory with operands
        else:
            buffer = (momentum_buffer * momentum).add(grad, alpha=1 - dampening)
        grad = grad.add(buffer, alpha=momentum) if nesterov else buffer
    param = param + grad * -lr
    return [param, buffer] if momentum != 0 else [param]


@dataclass(frozen=True, slots=True)
class AdamCall:
    """The arguments of the functions that `torch.optim.Adam` and `torch.optim.AdamW` call."""

    params: list[Tensor]
    grads: list[Tensor]
    exp_avgs: list[Tensor]
    exp_avg_sqs: list[Tensor]
    max_exp_avg_sqs: list[Tensor]
    state_steps: list[Tensor]
    grad_scale: Tensor | None
    found_inf: Tensor | None
    _: KW_ONLY
    amsgrad: bool
    has_complex: bool
    beta1: float | Tensor
    beta2: float | Tensor
    lr: float | Tensor
    weight_decay: float
    eps: float
    maximize: bool
    capturable: bool
    differentiable: bool
    decoupled_weight_decay: bool

    def check(self, *, decoupled: bool) -> None:
        """Leave unsupported calls, and calls of the other optimizer, to torch.optim.

        Raises:
            UnsupportedCallError: with the reason.
        """
        if self.decoupled_weight_decay != decoupled:
            called, expected = ("Adam", "AdamW") if decoupled else ("AdamW", "Adam")
            raise UnsupportedCallError(f"the call is for {called}, not {expected}")
        numbers = (self.beta1, self.beta2, self.lr, self.weight_decay, self.eps)
        check_supported(self.params, numbers, (self.grad_scale, self.found_inf))

    @property
    def states(self) -> tuple[list[Tensor], ...]:
        """The lists of tensors that the step changes."""
        lists = (self.params, self.exp_avgs, self.exp_avg_sqs)
        return (*lists, self.max_exp_avg_sqs) if self.amsgrad else lists

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes that the composites for one and for all parameters share."""
        return {
            "beta1": self.beta1,
            "beta2": self.beta2,
            "eps": self.eps,
            "weight_decay": 0.0 if self.decoupled_weight_decay else float(self.weight_decay),
            "maximize": self.maximize,
        }

    def scalars(self, made: "Scalars", step: Any, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return `step_size`, `bias_correction2_sqrt` and `decay` of `adam_update`.

        Args:
            made: the scalars of the call.
            step: the step count, as a number or as a tensor on the device.
            like: the parameter.
        """
        beta1, beta2, lr = cast("tuple[float, float, float]", (self.beta1, self.beta2, self.lr))
        bias_correction2 = 1 - beta2**step
        root = bias_correction2.sqrt() if isinstance(step, Tensor) else bias_correction2**0.5
        weight_decay = self.weight_decay if self.decoupled_weight_decay else 0
        return (
            made.tensor(lr / (1 - beta1**step), like),
            made.tensor(root, like),
            made.tensor(1 - lr * weight_decay, like, wide=True),
        )


def _adam(composite: Update, *arguments: Any, decoupled: bool, **keywords: Any) -> InPlace:
    """Adapt `torch.optim.AdamW` or `torch.optim.Adam` without `foreach` and `fused`, the default
    for XLA tensors."""
    call = AdamCall(*arguments, **keywords)
    call.check(decoupled=decoupled)
    devices = {param.device.type for param in call.params} if call.capturable else {"cpu"}
    if {step.device.type for step in call.state_steps} != devices:
        raise UnsupportedCallError("the step counts are on another device than in torch.optim")
    if call.differentiable:
        raise UnsupportedCallError("differentiable is True")
    scalars = Scalars()
    steps: list[Tensor] = []
    updates: list[Sequence[Tensor]] = []
    # Everything is computed before anything is written: if the call falls back to the stock
    # lowering, its tensors must be unchanged.
    for i, param in enumerate(call.params):
        steps.append(call.state_steps[i] + 1)
        step: Any = steps[i]
        if not call.capturable:  # Dynamo's graphs do not read values; Python's numbers are f64
            step = step.double() if torch.compiler.is_compiling() else step.item()
        updates.append(
            composite(
                param,
                call.grads[i],
                call.exp_avgs[i],
                call.exp_avg_sqs[i],
                *call.scalars(scalars, step, param),
                call.max_exp_avg_sqs[i] if call.amsgrad else None,
                **call.attributes,
                capturable=bool(call.capturable),  # not a constant in Dynamo since torch 2.15
            )
        )
    for state_step, step in zip(call.state_steps, steps, strict=True):
        state_step.copy_(step)
    return InPlace([*map(Written, zip(*call.states, strict=True), updates)], call.grads)


adamw, adam = partial(_adam, decoupled=True), partial(_adam, decoupled=False)


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
) -> InPlace:
    """Adapt `torch.optim.SGD` without `foreach` and `fused`, the default for XLA tensors."""
    check_supported(params, (weight_decay, momentum, lr, dampening), (grad_scale, found_inf))
    if has_sparse_grad:
        raise UnsupportedCallError("some gradients are sparse")
    scalars = Scalars()
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
    written: list[Written] = []
    for i, (param, updated) in enumerate(zip(params, updates, strict=True)):
        if momentum == 0:
            written.append(Written([param], updated))
        elif (buffer := momentum_buffer_list[i]) is None:
            written.append(Written([param], updated[:1]))
            momentum_buffer_list[i] = updated[1]
        else:
            written.append(Written([param, buffer], updated))
    return InPlace(written, grads)


def lion_update(
    param: Tensor,
    grad: Tensor,
    exp_avg: Tensor,
    lr: Tensor,
    decay: Tensor,
    *,
    beta1: float,
    beta2: float,
) -> list[Tensor]:
    """One step of Lion: Chen et al., "Symbolic Discovery of Optimization Algorithms" (2023).

    Args:
        param, grad, exp_avg: tensors of the same shape.
        lr: the learning rate, 0-d, of the dtype of `param`.
        decay: the factor of `param`, 0-d; `1 - lr * weight_decay`.

    Returns:
        New `param` and `exp_avg`.
    """
    direction = torch.sgn((exp_avg * beta1).add(grad, alpha=1 - beta1))
    updated = param * decay - direction * lr
    return [updated, (exp_avg * beta2).add(grad, alpha=1 - beta2)]


def lion(
    composite: Update,
    p: Tensor,
    grad: Tensor,
    exp_avg: Tensor,
    lr: float,
    wd: float,
    beta1: float,
    beta2: float,
) -> InPlace:
    """Adapt the update of `lion_pytorch.Lion` without Triton."""
    check_supported([p], (lr, wd, beta1, beta2))
    scalars = Scalars()
    updated = composite(
        p,
        grad,
        exp_avg,
        scalars.tensor(lr, p),
        scalars.tensor(1 - lr * wd, p, wide=True),
        beta1=float(beta1),
        beta2=float(beta2),
    )
    return InPlace([Written([p, exp_avg], updated)], [grad])


class Scalars:
    """The 0-d tensors of one step. Most parameters share them."""

    def __init__(self) -> None:
        self._made: dict[tuple[float, torch.dtype, torch.device], Tensor] = {}

    def tensor(self, value: Any, like: Tensor, *, wide: bool = False) -> Tensor:
        """Return a number as a 0-d tensor of the parameter's dtype, or of its opmath type if
        `wide`. A narrower tensor, which was computed on the device, is returned unchanged."""
        dtype = opmath_type(like.dtype) if wide else like.dtype
        if isinstance(value, Tensor):
            return value.to(dtype) if value.dtype == torch.float64 else value
        if torch.compiler.is_compiling():  # Dynamo would compile each number that it looks up
            return torch.full((), value, dtype=dtype, device=like.device)
        key = (float(value), dtype, like.device)
        if key not in self._made:
            self._made[key] = torch.full((), key[0], dtype=dtype, device=like.device)
        return self._made[key]


def check_supported(
    params: Sequence[Tensor], numbers: Sequence[Any], scaling: Sequence[Tensor | None] = ()
) -> None:
    """Leave calls that the updates do not support to torch.optim. It updates parameters that share
    memory one after the other, so that an update sees the updates before it.

    Args:
        numbers: the options of the optimizer, some of which can be tensors in torch.optim.
        scaling: `grad_scale` and `found_inf`, which a GradScaler passes to fused optimizers.

    Raises:
        UnsupportedCallError: an option is a tensor, gradients are scaled, or parameters are complex
            or share memory.
    """
    if any(isinstance(number, Tensor) for number in numbers):
        raise UnsupportedCallError("an option of the optimizer is a tensor")
    if any(tensor is not None for tensor in scaling):
        raise UnsupportedCallError("the gradients are scaled")
    if any(param.is_complex() for param in params):
        raise UnsupportedCallError("some parameters are complex")
    if share_memory(params):
        raise UnsupportedCallError("some of the parameters share memory")
