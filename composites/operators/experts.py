"""Mixture of experts: routing, and the products of the chosen experts of each token."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from composites.errors import UnsupportedCallError
from composites.intermediates import intermediate

_ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
}
# Names of classes, so that this module need not import transformers.
_NAMES = {
    "SiLU": "silu",
    "SiLUActivation": "silu",
    "GELUActivation": "gelu",
    "GELUTanh": "gelu_tanh",
}

Scores = tuple[Tensor, Tensor]


def top_k_routing(
    router_logits: Tensor, *, top_k: int, norm_topk_prob: bool
) -> tuple[Tensor, Tensor]:
    """The `top_k` experts with the largest probabilities for each token, and their weights.

    Shazeer et al., "Outrageously Large Neural Networks: The Sparsely-Gated Mixture-of-Experts
    Layer" (2017), with a softmax in f32 over all experts, before the choice.

    Args:
        router_logits: `[tokens, experts]`, floating point.
        norm_topk_prob: divide the weights of a token by their sum.

    Returns:
        The weights in the dtype of `router_logits` and the indices of the experts, both
        `[tokens, top_k]`.
    """
    probabilities = torch.softmax(router_logits, -1, dtype=torch.float32)
    weights, chosen = torch.topk(probabilities, top_k, dim=-1)
    if norm_topk_prob:
        weights = weights / weights.sum(dim=-1, keepdim=True)
    return weights.to(router_logits.dtype), chosen


def routing_of_module(
    composite: Callable[..., Scores], module: Any, hidden_states: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Run a router's `forward`: first its product, then the composite."""
    logits = functional.linear(hidden_states.reshape(-1, module.hidden_dim), module.weight)
    normalized = getattr(module, "norm_topk_prob", None)
    if normalized is None:  # Mixtral's router always normalizes, and leaves the weights in f32
        if logits.dtype != torch.float32:
            raise UnsupportedCallError(f"the router's weights have dtype {logits.dtype}")
        normalized = True
    return logits, *composite(logits, top_k=module.top_k, norm_topk_prob=normalized)


def experts(
    hidden_states: Tensor,
    top_k_index: Tensor,
    top_k_weights: Tensor,
    gate_up_proj: Tensor,
    down_proj: Tensor,
    *,
    activation: str,
) -> Tensor:
    """The weighted sum of the results of the chosen experts, for each token.

    An expert is a gated MLP: `down (act(gate x) * (up x))`. The products are computed as by
    `batched_mm` of transformers, which gathers the weights for each pair of a token and an expert.

    Args:
        hidden_states: `[tokens, hidden]`, floating point.
        top_k_index, top_k_weights: `[tokens, k]`, the experts of a token and their weights.
        gate_up_proj: `[experts, 2 * inner, hidden]`, the rows of the gate first.
        down_proj: `[experts, hidden, inner]`.
        activation: `silu`, `gelu` or `gelu_tanh`.
    """
    chosen = top_k_index.reshape(-1)
    pairs = hidden_states.repeat_interleave(top_k_index.size(-1), dim=0)
    both = torch.bmm(gate_up_proj[chosen], pairs.unsqueeze(-1)).squeeze(-1)
    # If devices share an expert, each of these products needs communication: to add parts, or to
    # get halves of divided rows.
    gate, up = map(intermediate, both.chunk(2, dim=-1), ("gate", "up"))
    inner = _ACTIVATIONS[activation](gate) * up
    outer = torch.bmm(down_proj[chosen], inner.unsqueeze(-1)).squeeze(-1)
    return _weighted_sum(intermediate(outer, "output"), top_k_weights, hidden_states)


def experts_of_module(
    composite: Callable[..., Tensor],
    module: Any,
    hidden_states: Tensor,
    top_k_index: Tensor,
    top_k_weights: Tensor,
) -> Tensor:
    """Adapt the `forward` of a module of experts to the composite's operands and attributes."""
    _check_batched(module, has_bias=False, is_transposed=False)
    if type(module)._apply_gate.__name__ != "_default_apply_gate":
        raise UnsupportedCallError(f"{type(module).__name__} has a gate of its own")
    activation = _NAMES.get(type(module.act_fn).__name__)
    if activation is None:
        raise UnsupportedCallError(f"the activation is {module.act_fn}")
    return composite(
        hidden_states,
        top_k_index,
        top_k_weights,
        module.gate_up_proj,
        module.down_proj,
        activation=activation,
    )


def gpt_oss_experts(
    hidden_states: Tensor,
    top_k_index: Tensor,
    top_k_weights: Tensor,
    gate_up_proj: Tensor,
    gate_up_proj_bias: Tensor,
    down_proj: Tensor,
    down_proj_bias: Tensor,
    *,
    alpha: float,
    limit: float,
) -> Tensor:
    """`experts` with biases and the gate of gpt-oss: `(up + 1) * gate * sigmoid(alpha * gate)`.

    Gate and up are bounded by `limit`: the gate from above, up from both sides.

    Args:
        hidden_states: `[tokens, hidden]`, floating point.
        top_k_index, top_k_weights: `[tokens, k]`, the experts of a token and their weights.
        gate_up_proj: `[experts, hidden, 2 * inner]`; the columns of gate and up alternate.
        gate_up_proj_bias: `[experts, 2 * inner]`.
        down_proj: `[experts, inner, hidden]`.
        down_proj_bias: `[experts, hidden]`.
    """
    chosen = top_k_index.reshape(-1)
    pairs = hidden_states.repeat_interleave(top_k_index.size(-1), dim=0)
    both = torch.bmm(pairs.unsqueeze(1), gate_up_proj[chosen]).squeeze(1)
    both = both + gate_up_proj_bias[chosen]
    gate = intermediate(both[..., ::2], "gate").clamp(min=None, max=limit)
    up = intermediate(both[..., 1::2], "up").clamp(min=-limit, max=limit)
    inner = (up + 1) * (gate * torch.sigmoid(gate * alpha))
    outer = torch.bmm(inner.unsqueeze(1), down_proj[chosen]).squeeze(1) + down_proj_bias[chosen]
    outer = intermediate(outer, "output")
    return _weighted_sum(outer, top_k_weights, hidden_states)


def gpt_oss_experts_of_module(
    composite: Callable[..., Tensor],
    module: Any,
    hidden_states: Tensor,
    router_indices: Tensor | None = None,
    routing_weights: Tensor | None = None,
) -> Tensor:
    """Adapt the `forward` of `GptOssExperts` to the composite's operands and attributes."""
    _check_batched(module, has_bias=True, is_transposed=True)
    if router_indices is None or routing_weights is None:
        raise UnsupportedCallError("router_indices or routing_weights is None")
    return composite(
        hidden_states,
        router_indices,
        routing_weights,
        module.gate_up_proj,
        module.gate_up_proj_bias,
        module.down_proj,
        module.down_proj_bias,
        alpha=module.alpha,
        limit=module.limit,
    )


def _check_batched(module: Any, **expected: bool) -> None:
    """Refuse modules with settings that the decompositions do not compute."""
    # Other implementations add in another order, or depend on the data.
    implementation = getattr(module.config, "_experts_implementation", None)
    if implementation not in ("batched_mm", "composites"):
        raise UnsupportedCallError(f"the implementation of the experts is {implementation}")
    expected |= {"has_gate": True, "has_post_expert_norm": False, "_is_expert_parallel": False}
    for name, value in expected.items():
        if getattr(module, name, None) != value:
            raise UnsupportedCallError(f"{name} of the experts is {getattr(module, name, None)}")


def _weighted_sum(outer: Tensor, weights: Tensor, hidden_states: Tensor) -> Tensor:
    weighted = outer * weights.reshape(-1).unsqueeze(-1)
    tokens, hidden = hidden_states.shape
    return weighted.view(tokens, weights.size(-1), hidden).sum(dim=1).to(hidden_states.dtype)
