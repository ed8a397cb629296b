"""Attention as models write it in Python, and the values that attention saves for its backward."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from composites.errors import UnsupportedCallError
from composites.operators.opmath import opmath_type


def log_sum_exp(
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
    """The log-sum-exp of each row of scores, in f32.

    From this value, a backward can recompute any probability as `exp(score - log_sum_exp)`: Dao et
    al., "FlashAttention" (2022), section 3. Rounding a large value causes a relative error of all
    probabilities of its row, 3e-5 at 1,000, as in PyTorch's flash attention.

    Args:
        query: `[…, Hq, L, E]`.
        key: `[…, H, S, E]`. H divides Hq if `enable_gqa`; otherwise H is Hq.
        attn_mask: bool (True takes part) or additive, broadcast to `[…, Hq, L, S]`.

    Returns:
        `[…, Hq, L]`, f32; minus infinity for a row that is masked completely.
    """
    if enable_gqa:
        key = key.repeat_interleave(query.size(-3) // key.size(-3), -3)
    factor = 1 / math.sqrt(query.size(-1)) if scale is None else scale
    scores = torch.matmul(query, key.transpose(-2, -1)).to(torch.float32) * factor
    if is_causal:
        rows = torch.arange(query.size(-2), device=query.device).unsqueeze(-1)
        columns = torch.arange(key.size(-2), device=query.device)
        scores = torch.where(columns <= rows, scores, -math.inf)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = torch.where(attn_mask, scores, -math.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    return torch.logsumexp(scores, -1)


def dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """Attention with heads after positions, as in `jax.nn.dot_product_attention`.

    The scores, `scale * query @ key`, have one column for each key. The bias is added first. Then a
    score that a mask or `is_causal` excludes becomes a number far below all others, so that a row
    without any key weighs all values alike; `scaled_dot_product_attention` returns zeros for such a
    row. The softmax is in f32, and in f64 for f64.

    Args:
        query: `[…, T, N, H]`, floating point.
        key: `[…, S, K, H]`; K divides N, and each head is shared by N / K consecutive query heads.
        value: `[…, S, K, Hv]`.
        attn_mask: bool (True takes part) or added to the scores; broadcast to `[…, N, T, S]`.
        bias: added to the scores, besides a bool mask; broadcast to `[…, N, T, S]`.
        is_causal: position t does not attend to keys after t.
        scale: 1 / sqrt(H) if it is None.

    Returns:
        `[…, T, N, Hv]`.
    """
    scores = _masked_scores(query, key, value, attn_mask, bias, is_causal, scale)
    weights = functional.softmax(scores, dim=-1).to(value.dtype)
    return torch.matmul(weights, _heads_in_front(value, query)).transpose(-3, -2)


def log_sum_exp_of_rows(*operands: Any, **options: Any) -> Tensor:
    """The `log_sum_exp` of `dot_product_attention` for the same arguments: `[…, T, N]` in f32 (f64
    for f64)."""
    return torch.logsumexp(_masked_scores(*operands, **options), -1).transpose(-2, -1)


def _masked_scores(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    bias: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """The scores with bias and masks, `[…, N, T, S]` in f32 (f64 for f64)."""
    wide = opmath_type(query.dtype)
    factor = 1 / math.sqrt(query.size(-1)) if scale is None else scale
    rows = query.to(wide).transpose(-3, -2)
    columns = _heads_in_front(key.to(wide), query)
    scores = torch.matmul(rows, columns.transpose(-2, -1)) * factor
    excluded = -0.7 * torch.finfo(torch.float32).max  # as in JAX: finite, also in f64
    is_boolean = attn_mask is not None and attn_mask.dtype == torch.bool
    for added in (bias, None if is_boolean else attn_mask):
        if added is not None:
            scores = scores + added.to(wide)
    if attn_mask is not None and is_boolean:
        scores = torch.where(attn_mask, scores, excluded)
    if is_causal:
        positions = torch.arange(query.size(-3), device=query.device).unsqueeze(-1)
        keys = torch.arange(key.size(-3), device=query.device)
        scores = torch.where(keys <= positions, scores, excluded)
    return scores


def _heads_in_front(tensor: Tensor, query: Tensor) -> Tensor:
    """Repeat keys or values `[…, S, K, H]` for each head of `query`: `[…, N, S, H]`."""
    times = query.size(-2) // tensor.size(-2)
    return tensor.transpose(-3, -2).repeat_interleave(times, -3)


def eager_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None = None,
    *,
    scaling: float,
    softcap: float | None = None,
) -> Tensor:
    """Attention with bounded scores: `softcap * tanh(scores / softcap)`, unless `softcap` is None.

    Gemma Team, "Gemma 2" (2024), section 2. The softmax is in f32.

    Args:
        query: `[N, Hq, L, E]`, floating point.
        key, value: `[N, H, S, E]`; H divides Hq.
        attention_mask: added to the scores after they are bounded; broadcast to `[N, Hq, L, S]`.

    Returns:
        `[N, L, Hq, E]`.
    """
    weights = attention_weights(query, key, attention_mask, scaling, softcap)
    result = torch.matmul(weights, _repeated(value, query))
    return result.transpose(1, 2).contiguous()


def attention_weights(
    query: Tensor,
    key: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    softcap: float | None = None,
) -> Tensor:
    """The weights of the values in `eager_attention`, `[N, Hq, L, S]`."""
    scores = torch.matmul(query, _repeated(key, query).transpose(2, 3)) * scaling
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    if attention_mask is not None:
        scores = scores + attention_mask
    return functional.softmax(scores, dim=-1, dtype=torch.float32).to(query.dtype)


def adapt_interface(
    composite: Callable[..., Tensor],
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor]:
    """Adapt an `eager_attention_forward` of transformers, which also gets keyword arguments for
    other implementations of attention."""
    _check_dropout(module, dropout)
    scaling = module.head_dim**-0.5 if scaling is None else scaling
    result = composite(query, key, value, attention_mask, scaling=scaling, softcap=softcap)
    # Not a result of the composite: most models do not use the weights, and XLA drops them then.
    return result, attention_weights(query, key, attention_mask, scaling, softcap)


def attention_with_sinks(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    sinks: Tensor,
    attention_mask: Tensor | None = None,
    *,
    scaling: float,
) -> Tensor:
    """Attention in which each head has one more score, its sink, without a value.

    Xiao et al., "Efficient Streaming Language Models with Attention Sinks" (2023); OpenAI,
    "gpt-oss model card" (2025).

    Args:
        query: `[N, Hq, L, E]`, floating point.
        key, value: `[N, H, S, E]`; H divides Hq.
        sinks: `[Hq]`.
        attention_mask: added to the scores; broadcast to `[N, Hq, L, S]`.

    Returns:
        `[N, L, Hq, E]`.
    """
    weights = attention_weights_with_sinks(query, key, sinks, attention_mask, scaling)
    result = torch.matmul(weights.to(value.dtype), _repeated(value, query))
    return result.transpose(1, 2).contiguous()


def attention_weights_with_sinks(
    query: Tensor, key: Tensor, sinks: Tensor, attention_mask: Tensor | None, scaling: float
) -> Tensor:
    """The weights of the values in `attention_with_sinks`, `[N, Hq, L, S]`."""
    scores = torch.matmul(query, _repeated(key, query).transpose(2, 3)) * scaling
    if attention_mask is not None:
        scores = scores + attention_mask
    sink = sinks.reshape(1, -1, 1, 1).expand(query.shape[0], -1, query.shape[-2], -1)
    scores = torch.cat([scores, sink], dim=-1)
    scores = scores - scores.max(dim=-1, keepdim=True).values
    return functional.softmax(scores, dim=-1, dtype=scores.dtype)[..., :-1]


def adapt_interface_with_sinks(
    composite: Callable[..., Tensor],
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    **kwargs: Any,
) -> tuple[Tensor, Tensor]:
    """Adapt the `eager_attention_forward` of gpt-oss."""
    _check_dropout(module, dropout)
    sinks = module.sinks
    result = composite(query, key, value, sinks, attention_mask, scaling=scaling)
    weights = attention_weights_with_sinks(query, key, sinks, attention_mask, scaling)
    return result, weights.to(value.dtype)


def scaled_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None = None,
    *,
    scale_attn: float,
    mask_first: bool,
) -> Tensor:
    """Attention whose scores are computed in f32 and divided by `scale_attn`.

    Args:
        query: `[N, H, L, E]`, floating point.
        key, value: `[N, H, S, E]`.
        attention_mask: added to the scores; broadcast to `[N, H, L, S]`.
        mask_first: add the mask before the division.

    Returns:
        `[N, H, L, E]`.
    """
    weights = scaled_weights(query, key, attention_mask, scale_attn, mask_first)
    return torch.matmul(weights.to(value.dtype), value)


def scaled_weights(
    query: Tensor, key: Tensor, attention_mask: Tensor | None, scale_attn: float, mask_first: bool
) -> Tensor:
    """The weights of the values in `scaled_attention`, `[N, H, L, S]` in f32."""
    wide = torch.matmul(query.to(torch.float32), key.to(torch.float32).transpose(-1, -2))
    if attention_mask is not None and mask_first:
        wide = wide + attention_mask
    wide = wide / scale_attn
    if attention_mask is not None and not mask_first:
        wide = wide + attention_mask
    return functional.softmax(wide, dim=-1)


def adapt_gptj(
    composite: Callable[..., Tensor],
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Adapt the `_attn` of GPT-J and CodeGen."""
    _check_dropout(module, module.attn_dropout.p)
    scale = float(module.scale_attn)
    mask_first = type(module).__name__ == "CodeGenAttention"  # GPT-J divides, then masks
    result = composite(query, key, value, attention_mask, scale_attn=scale, mask_first=mask_first)
    weights = scaled_weights(query, key, attention_mask, scale, mask_first)
    return result, weights.to(value.dtype)


def relative_position_bias(
    relative_position_bias_table: Tensor, relative_position_index: Tensor, *, window_area: int
) -> Tensor:
    """The bias that Swin adds to the scores of each pair of positions in a window.

    Liu et al., "Swin Transformer" (2021), section 3.2.

    Args:
        relative_position_bias_table: `[R, H]`, a row for each relative position.
        relative_position_index: `[window_area * window_area]`, the row for each pair.

    Returns:
        `[1, H, window_area, window_area]`.
    """
    bias = relative_position_bias_table[relative_position_index]
    bias = bias.view(window_area, window_area, -1)
    return bias.permute(2, 0, 1).contiguous().unsqueeze(0)


def relative_position_bias_of_module(composite: Callable[..., Tensor], module: Any) -> Tensor:
    """Adapt the `forward` of Swin's module to the composite's operands and attribute."""
    return composite(
        module.relative_position_bias_table,
        module.relative_position_index,
        window_area=module.window_area,
    )


def _check_dropout(module: Any, dropout: float) -> None:
    if dropout and module.training:
        raise UnsupportedCallError("both results share the weights, which have dropout")


def _repeated(tensor: Tensor, query: Tensor) -> Tensor:
    """Repeat keys or values `[N, H, S, E]` for each head of `query` (transformers' `repeat_kv`)."""
    batch, heads, length, width = tensor.shape
    times = query.shape[1] // heads
    if times == 1:
        return tensor
    repeated = tensor[:, :, None, :, :].expand(batch, heads, times, length, width)
    return repeated.reshape(batch, heads * times, length, width)
