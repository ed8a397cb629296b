"""The functions that tenstorrent.yaml and the files next to it name: decompositions and adapters.

A vendor ships such a module in its own package. Shapes are those of tt-mlir's operations
(include/ttmlir/Dialect/TTIR/IR/TTIROps.td, verifiers in lib/Dialect/TTIR/IR/TTIROps.cpp): B batch,
Hq and Hkv heads, S sequence, D and Dv head dimensions, R rows, C columns.

Where a PyTorch operator would be a composite of the same registry, decompositions use its
elementary operations instead, so that no composite contains another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from composites.errors import UnsupportedCallError

One = Callable[..., Tensor]
Several = Callable[..., Sequence[Tensor]]

NO_MASK, CAUSAL, ARBITRARY = range(3)
"""Values of `mask_type`: no mask, a causal mask, or a mask given as an operand."""

TILE = 32
"""Width of a tile, and of the intermediates of `sdpa_fw`."""


def _is_trained(*tensors: Tensor | None) -> bool:
    return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)


# Norms.


def rms_norm(
    input: Tensor, weight: Tensor | None = None, *, normalized_shape: Sequence[int], epsilon: float
) -> Tensor:
    """RMS norm of `[…, C]` over the last dimension; weight `[C]`."""
    return F.rms_norm(input, list(normalized_shape), weight, epsilon)


def to_rms_norm(
    composite: One,
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """Adapt `aten::rms_norm`, with its epsilon written out.

    By default, PyTorch uses the epsilon of the type that it computes in, which is at least f32. The
    default of the composite is 1e-5 (TTIROps.td, RMSNormOp).
    """
    if eps is None:
        wide = torch.float64 if input.dtype == torch.float64 else torch.float32
        eps = torch.finfo(wide).eps
    return composite(input, weight, normalized_shape=list(normalized_shape), epsilon=eps)


def residual_rms_norm(
    x: Tensor,
    residual: Tensor,
    weight: Tensor,
    normalized_shape: Sequence[int],
    epsilon: float = 1e-5,
) -> Tensor:
    """RMS norm of `x + residual`, `[…, C]`, over the last dimension."""
    wide = (x + residual).to(torch.float32)
    normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)
    return (normed * weight).to(x.dtype)


def layernorm_fw(
    input: Tensor, weight: Tensor, bias: Tensor, *, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Layer norm of `[1, 1, R, C]`; weight and bias `[1, 1, 1, C]`.

    Returns:
        The result, and the mean and reciprocal standard deviation, `[1, 1, R, 1]`.
    """
    wide = input.to(torch.float32)
    mean = wide.mean(-1, keepdim=True)
    centered = wide - mean
    rstd = torch.rsqrt(centered.square().mean(-1, keepdim=True) + epsilon)
    result = (centered * rstd) * weight + bias
    return result.to(input.dtype), mean.to(input.dtype), rstd.to(input.dtype)


def layernorm_bw(
    input: Tensor, weight: Tensor, result_1: Tensor, result_2: Tensor, grad_output: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of input, weight and bias, for a gradient `[1, 1, R, C]` of the result.

    Args:
        result_1, result_2: mean and reciprocal standard deviation of `layernorm_fw`.
    """
    wide = grad_output.to(torch.float32)
    normed = (input.to(torch.float32) - result_1) * result_2
    scaled = wide * weight
    inner = scaled - scaled.mean(-1, keepdim=True) - normed * (scaled * normed).mean(-1, True)
    grad_weight = (wide * normed).sum(-2, keepdim=True)
    return (
        (inner * result_2).to(input.dtype),
        grad_weight.to(weight.dtype),
        wide.sum(-2, keepdim=True).to(weight.dtype),
    )


def to_layernorm_fw(
    composite: Several,
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    """Adapt `aten::layer_norm` if a gradient is needed, with tensors reshaped to four
    dimensions."""
    if weight is None or bias is None or len(normalized_shape) != 1:
        raise UnsupportedCallError("the call needs a weight and a bias of the last dimension")
    if not _is_trained(input, weight, bias):
        raise UnsupportedCallError("the entry layer_norm handles inference")
    columns = input.shape[-1]
    result, _, _ = composite(
        input.reshape(1, 1, -1, columns),
        weight.reshape(1, 1, 1, columns),
        bias.reshape(1, 1, 1, columns),
        epsilon=eps,
    )
    return result.reshape(input.shape)


# Gates.


def swiglu(x: Tensor) -> Tensor:
    """`silu(first half) * second half` of the last dimension."""
    return _gated(F.silu, x)


def glu(x: Tensor) -> Tensor:
    """The same with the sigmoid. In `torch.nn.functional.glu`, it is of the second half."""
    return _gated(torch.sigmoid, x)


def geglu(x: Tensor) -> Tensor:
    """The same with the exact GELU."""
    return _gated(lambda gate: gate * 0.5 * (1 + torch.erf(gate / math.sqrt(2))), x)


def reglu(x: Tensor) -> Tensor:
    """The same with ReLU."""
    return _gated(F.relu, x)


def _gated(act: One, x: Tensor) -> Tensor:
    gate, up = x.chunk(2, -1)
    return act(gate) * up


# Attention.


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    *,
    is_causal: bool,
    scale: float,
) -> Tensor:
    """Query `[B, Hq, S, D]`, key and value `[B, Hkv, Sk, D]`, and an additive mask."""
    return F.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask,
        is_causal=is_causal,
        scale=scale,
        enable_gqa=query.shape[1] != key.shape[1],
    )


def to_attention(
    composite: One,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Adapt PyTorch's attention: four dimensions, an additive mask `[…, Sk]`, an explicit scale."""
    if dropout_p != 0:
        raise UnsupportedCallError("the composite has no dropout")
    if query.dim() not in (3, 4) or not query.dim() == key.dim() == value.dim():
        raise UnsupportedCallError("query, key and value must have 3 or 4 dimensions")
    if key.shape[-3] != query.shape[-3] and not enable_gqa:
        raise UnsupportedCallError("heads can only be shared with enable_gqa")
    if attn_mask is not None:
        if attn_mask.dim() > 4:
            raise UnsupportedCallError("the mask has more than 4 dimensions")
        if attn_mask.dtype == torch.bool:
            allowed = torch.zeros_like(attn_mask, dtype=query.dtype)
            attn_mask = allowed.masked_fill(attn_mask.logical_not(), -math.inf)
        attn_mask = attn_mask.expand(*attn_mask.shape[:-1], key.shape[-2])
        attn_mask = attn_mask.reshape(*[1] * (4 - attn_mask.dim()), *attn_mask.shape)
    whole = query.dim() == 4
    operands = [t if whole else t.unsqueeze(0) for t in (query, key, value)]
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else float(scale)
    result = composite(*operands, attn_mask, is_causal=is_causal, scale=factor)
    return result if whole else result.squeeze(0)


def sdpa_fw(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    mask_type: int,
    dropout_probability: float,
) -> tuple[Tensor, Tensor]:
    """Attention with the fixed scale `1 / sqrt(D)`, and the intermediates for its backward.

    Args:
        query: `[B, Hq, S, D]`.
        key: `[B, Hkv, S, D]`.
        value: `[B, Hkv, S, Dv]`.
        mask: `[1, 1, S, S]`, 1 for a score that is kept and 0 for one that is dropped, as in
            tt-metal's kernel (tt-train/sources/ttml/metal/ops/sdpa_fw/device/kernels/compute).

    Returns:
        `[B, Hq, S, Dv]`, and `[B, Hq, S, 32]` in f32. The latter has the logarithm of the sum of
        exponentials in column 0 of a tile, and zeros elsewhere.
    """
    scores = _scores(query, key, mask, mask_type)
    total = torch.logsumexp(scores, -1, keepdim=True)
    probabilities = _probabilities(scores, total).to(value.dtype)
    result = torch.matmul(probabilities, _for_heads(value, query))
    return result, F.pad(total, (0, TILE - 1))


def sdpa_bw(
    grad_output: Tensor,
    result: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    result_1: Tensor,
    mask: Tensor | None = None,
    *,
    mask_type: int,
    dropout_probability: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of query, key and value.

    Dao et al., "FlashAttention" (2022), section B.2.

    Args:
        grad_output, result: `[B, Hq, S, Dv]`.
        result_1: the intermediates of `sdpa_fw`.
    """
    probabilities = _probabilities(_scores(query, key, mask, mask_type), result_1[..., :1])
    wide = grad_output.to(torch.float32)
    grad_value = torch.matmul(probabilities.transpose(-2, -1), wide)
    from_value = torch.matmul(wide, _for_heads(value, query).to(torch.float32).transpose(-2, -1))
    inner = (wide * result).sum(-1, keepdim=True)
    grad_scores = probabilities * (from_value - inner) / math.sqrt(query.shape[-1])
    grad_query = torch.matmul(grad_scores, _for_heads(key, query).to(torch.float32))
    grad_key = torch.matmul(grad_scores.transpose(-2, -1), query.to(torch.float32))
    return (
        grad_query.to(query.dtype),
        _of_shared_heads(grad_key, key),
        _of_shared_heads(grad_value, value),
    )


def to_sdpa_fw(
    composite: Several,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Adapt PyTorch's attention if a gradient is needed. A custom scale is multiplied into
    `query`."""
    if not _is_trained(query, key, value):
        raise UnsupportedCallError("the entry scaled_dot_product_attention handles inference")
    if dropout_p != 0 or query.dim() != 4 or key.dim() != 4:
        raise UnsupportedCallError("the call must have four dimensions and no dropout")
    if key.shape[1] != query.shape[1] and not enable_gqa:
        raise UnsupportedCallError("heads can only be shared with enable_gqa")
    mask_type = CAUSAL if is_causal else NO_MASK
    if attn_mask is not None:
        size = attn_mask.shape
        if is_causal or attn_mask.dtype != torch.bool or any(n != 1 for n in size[:-2]):
            raise UnsupportedCallError("the mask must be a bool mask shared by all heads")
        mask_type = ARBITRARY
        rows = query.shape[2]
        attn_mask = attn_mask.to(query.dtype).reshape(1, 1, *[1] * (2 - len(size[-2:])), *size[-2:])
        attn_mask = attn_mask.expand(1, 1, rows, rows)
    if scale is not None:
        factor = scale * math.sqrt(query.shape[-1])
        query = query if math.isclose(factor, 1) else query * factor
    result, _ = composite(
        query, key, value, attn_mask, mask_type=mask_type, dropout_probability=0.0
    )
    return result


def _scores(query: Tensor, key: Tensor, mask: Tensor | None, mask_type: int) -> Tensor:
    keys = _for_heads(key, query).to(torch.float32)
    scores = torch.matmul(query.to(torch.float32), keys.transpose(-2, -1))
    scores = scores / math.sqrt(query.shape[-1])
    if mask_type == CAUSAL:
        places = torch.arange(query.shape[-2], device=query.device)
        scores = torch.where(places <= places.unsqueeze(-1), scores, -math.inf)
    if mask is not None:
        scores = torch.where(mask != 0, scores, -math.inf)
    return scores


def _probabilities(scores: Tensor, total: Tensor) -> Tensor:
    """The probabilities. They are zero for dropped scores, even in a row in which no score is
    kept."""
    return torch.where(scores == -math.inf, 0.0, torch.exp(scores - total))


def _for_heads(shared: Tensor, query: Tensor) -> Tensor:
    """Repeat `[B, Hkv, …]` to `[B, Hq, …]`."""
    return shared.repeat_interleave(query.shape[1] // shared.shape[1], 1)


def _of_shared_heads(grad: Tensor, shared: Tensor) -> Tensor:
    """Sum `[B, Hq, …]` over the heads that share one head of `shared`."""
    groups = grad.reshape(grad.shape[0], shared.shape[1], -1, *grad.shape[2:])
    return groups.sum(2).to(shared.dtype)


# Cross entropy.


def cross_entropy_fw(logits: Tensor, target: Tensor) -> Tensor:
    """The negative log-likelihood of each row: logits `[N, 1, H, W]`, target `[N, H]`.

    Returns:
        `[N, 1, H, 1]`, of the dtype of `logits`.
    """
    wide = logits.to(torch.float32)
    largest = wide.amax(-1, keepdim=True)
    total = (wide - largest).exp().sum(-1, keepdim=True).log() + largest
    chosen = torch.where(_is_target(logits, target), wide, 0.0).sum(-1, keepdim=True)
    return (total - chosen).to(logits.dtype)


def cross_entropy_bw(logits: Tensor, target: Tensor, grad: Tensor, *, scaler: float) -> Tensor:
    """`(softmax - onehot) * scaler * grad`, `[N, 1, H, W]`; grad is `[1, 1, 1, 1]`."""
    wide = logits.to(torch.float32)
    exponentials = (wide - wide.amax(-1, keepdim=True)).exp()
    softmax = exponentials / exponentials.sum(-1, keepdim=True)
    onehot = _is_target(logits, target).to(torch.float32)
    return ((softmax - onehot) * scaler * grad).to(logits.dtype)


def to_cross_entropy_fw(
    composite: One,
    self: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: int = 1,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Tensor:
    """Adapt `aten::cross_entropy_loss`. Ignored rows and the reduction stay outside the
    composite."""
    if weight is not None or label_smoothing != 0 or target.is_floating_point():
        raise UnsupportedCallError(
            "targets must be indices, without class weights or label smoothing"
        )
    if self.dim() < 2 or self.numel() == 0:
        raise UnsupportedCallError("the call needs rows of classes")
    counted = target != ignore_index
    labels = torch.where(counted, target, 0).to(torch.int32)
    rows = self.movedim(1, -1).reshape(1, 1, -1, self.shape[1])
    losses = composite(rows, labels.reshape(1, -1)).reshape(target.shape)
    losses = torch.where(counted, losses, 0)
    if reduction == 0:
        return losses
    if reduction == 2:
        return losses.sum()
    return (losses.sum(dtype=torch.float32) / counted.sum()).to(self.dtype)


def to_cross_entropy_bw(
    composite: One, grad_output: Tensor, logits: Tensor, target: Tensor
) -> Tensor:
    """The composite takes one gradient for all rows, so the gradient of each row is multiplied
    outside."""
    one = torch.ones((1, 1, 1, 1), dtype=logits.dtype, device=logits.device)
    return composite(logits, target, one, scaler=1.0) * grad_output


def _is_target(logits: Tensor, target: Tensor) -> Tensor:
    classes = torch.arange(logits.shape[-1], dtype=target.dtype, device=logits.device)
    return classes == target.unsqueeze(1).unsqueeze(-1)


# AdamW.


def adamw(
    param: Tensor,
    grad: Tensor,
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
    max_exp_avg_sq: Tensor | None = None,
    *,
    lr: float,
    beta1: float,
    beta2: float,
    beta1_pow: float,
    beta2_pow: float,
    epsilon: float,
    weight_decay: float,
) -> list[Tensor]:
    """One step of AdamW; `beta1_pow` is `beta1^t`, and `beta2_pow` is `beta2^t`.

    Returns:
        New param, exp_avg and exp_avg_sq, and new max_exp_avg_sq if it is given.
    """
    state = (param, grad, exp_avg, exp_avg_sq, max_exp_avg_sq)
    decay, step_size = 1 - lr * weight_decay, lr / (1 - beta1_pow)
    return _adamw(*state, decay, step_size, math.sqrt(1 - beta2_pow), beta1, beta2, epsilon)


def adamw_operands(
    param: Tensor,
    grad: Tensor,
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
    lr: Tensor,
    beta1_pow: Tensor,
    beta2_pow: Tensor,
    max_exp_avg_sq: Tensor | None = None,
    *,
    beta1: float,
    beta2: float,
    epsilon: float,
    weight_decay: float,
) -> list[Tensor]:
    """One step of AdamW with `lr`, `beta1^t` and `beta2^t` as operands, `[1]` in f32."""
    state = (param, grad, exp_avg, exp_avg_sq, max_exp_avg_sq)
    root = (1 - beta2_pow).sqrt().reshape(()).to(param.dtype)
    step_size = (lr / (1 - beta1_pow)).reshape(()).to(param.dtype)
    decay = (1 - lr * weight_decay).reshape(()).to(param.dtype)
    return _adamw(*state, decay, step_size, root, beta1, beta2, epsilon)


def _adamw(
    param: Tensor,
    grad: Tensor,
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
    max_exp_avg_sq: Tensor | None,
    decay: float | Tensor,
    step_size: float | Tensor,
    root: float | Tensor,
    beta1: float,
    beta2: float,
    epsilon: float,
) -> list[Tensor]:
    exp_avg = exp_avg.lerp(grad, 1 - beta1)
    exp_avg_sq = (exp_avg_sq * beta2).addcmul(grad, grad, value=1 - beta2)
    largest = exp_avg_sq if max_exp_avg_sq is None else max_exp_avg_sq.maximum(exp_avg_sq)
    param = param * decay - exp_avg / (largest.sqrt() / root + epsilon) * step_size
    updated = [param, exp_avg, exp_avg_sq]
    return updated if max_exp_avg_sq is None else [*updated, largest]


def to_adamw(composite: Several, *arguments: Any, **keywords: Any) -> None:
    """Adapt `torch.optim.adam._single_tensor_adam` if the step count is on the host."""
    lr, beta1, beta2 = keywords["lr"], keywords["beta1"], keywords["beta2"]

    def update(state: Sequence[Tensor | None], step: float | Tensor) -> Sequence[Tensor]:
        if isinstance(lr, Tensor) or isinstance(step, Tensor):
            raise UnsupportedCallError("only plain numbers can be attributes")
        powers = {"beta1_pow": beta1**step, "beta2_pow": beta2**step}
        return composite(*state, lr=lr, **powers, **_constants(**keywords))

    _adamw_of_each(update, *arguments, **keywords)


def to_adamw_operands(composite: Several, *arguments: Any, **keywords: Any) -> None:
    """The same adapter, but the step count and `lr` may also be on the device (`capturable`)."""
    lr, beta1, beta2 = keywords["lr"], keywords["beta1"], keywords["beta2"]
    scalars: dict[Any, Tensor] = {}

    def scalar(value: Any, device: torch.device) -> Tensor:
        if isinstance(value, Tensor):
            return value.to(device=device, dtype=torch.float32).reshape(1)
        if (value, device) not in scalars:  # torch.full makes the number data of the graph
            scalars[value, device] = torch.full((1,), value, dtype=torch.float32, device=device)
        return scalars[value, device]

    def update(state: Sequence[Tensor | None], step: float | Tensor) -> Sequence[Tensor]:
        *tensors, largest = state
        device = tensors[0].device
        numbers = [scalar(value, device) for value in (lr, beta1**step, beta2**step)]
        return composite(*tensors, *numbers, largest, **_constants(**keywords))

    _adamw_of_each(update, *arguments, **keywords)


def _constants(
    *, beta1: float, beta2: float, eps: float, weight_decay: float, **others: Any
) -> dict[str, float]:
    numbers = {"beta1": beta1, "beta2": beta2, "epsilon": eps}
    return numbers | {"weight_decay": float(weight_decay)}


def _adamw_of_each(
    update: Callable[[Sequence[Tensor | None], float | Tensor], Sequence[Tensor]],
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    max_exp_avg_sqs: list[Tensor],
    state_steps: list[Tensor],
    grad_scale: Tensor | None,
    found_inf: Tensor | None,
    **keywords: Any,
) -> None:
    """Update each parameter with a function of its state and the step number."""
    _check_adamw(grad_scale, found_inf, **keywords)
    updates = []
    for i, param in enumerate(params):
        grad = -grads[i] if keywords["maximize"] else grads[i]
        largest = max_exp_avg_sqs[i] if keywords["amsgrad"] else None
        on_host = state_steps[i].device.type == "cpu"
        if on_host and torch.compiler.is_dynamo_compiling():
            raise UnsupportedCallError("reading the step count would break a compiled graph")
        step = (state_steps[i].item() if on_host else state_steps[i]) + 1
        updates.append(update((param, grad, exp_avgs[i], exp_avg_sqs[i], largest), step))
    # Everything is computed before anything is written, because the call may still fall back.
    for i, updated in enumerate(updates):
        state_steps[i] += 1
        state = (params[i], exp_avgs[i], exp_avg_sqs[i], *max_exp_avg_sqs[i : i + 1])
        for tensor, value in zip(state, updated, strict=True):
            tensor.copy_(value)


def _check_adamw(
    grad_scale: Tensor | None,
    found_inf: Tensor | None,
    *,
    has_complex: bool,
    beta1: float | Tensor,
    beta2: float | Tensor,
    weight_decay: float,
    eps: float,
    differentiable: bool,
    decoupled_weight_decay: bool,
    **others: Any,
) -> None:
    if not decoupled_weight_decay and weight_decay != 0:
        raise UnsupportedCallError("the call is for Adam with an L2 penalty")
    numbers = (beta1, beta2, weight_decay, eps)
    if differentiable or has_complex or grad_scale is not None or found_inf is not None:
        raise UnsupportedCallError("needs real tensors and no gradient scaler")
    if any(isinstance(number, Tensor) for number in numbers):
        raise UnsupportedCallError("needs plain numbers")


# Random numbers.


def uniform(key: Tensor, low: Tensor, high: Tensor, *, shape: Sequence[int]) -> Tensor:
    """Numbers from `[low, high)`, which depend on the key `[2]` in ui32.

    They are hashes of the key and of the element's number.
    """
    wide = key.to(torch.int64)
    places = torch.arange(math.prod(shape), device=key.device)
    bits = _mixed(_mixed(_mixed(places) + wide[0]) + wide[1])
    unit = (bits >> 8).to(torch.float32) / 2**24
    return low + (high - low) * unit.reshape(shape)


def _mixed(numbers: Tensor) -> Tensor:
    """A hash of 32-bit numbers, in i64 (lowbias32 of Chris Wellons' hash-prospector)."""
    numbers = numbers & 0xFFFFFFFF
    numbers = (numbers ^ (numbers >> 16)) * 0x7FEB352D & 0xFFFFFFFF
    numbers = (numbers ^ (numbers >> 15)) * 0x846CA68B & 0xFFFFFFFF
    return numbers ^ (numbers >> 16)


def to_uniform(
    composite: One,
    self: Tensor,
    from_: float = 0.0,
    to: float = 1.0,
    *,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Adapt `aten::uniform`. Zeros and ones are constants in every graph of torch_xla."""
    if self.dtype != torch.float32 or generator is not None:
        raise UnsupportedCallError("numbers must be f32, of the default generator")
    key = torch.randint(0, 2**31 - 1, (2,), device=self.device).to(torch.uint32)
    bounds = torch.zeros((), device=self.device), torch.ones((), device=self.device)
    unit = composite(key, *bounds, shape=list(self.shape))
    return unit if (from_, to) == (0, 1) else unit * (to - from_) + from_


def uniform_samples(dtype: torch.dtype) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Two ranges."""
    if dtype == torch.float32:
        yield (torch.empty(2, 3),), {}
        yield (torch.empty(5), -2.0, 3.0), {}
