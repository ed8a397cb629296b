"""The value that attention saves for its backward."""

from __future__ import annotations

import math

import torch
from torch import Tensor


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
    """The logarithm of the sum of the exponentials of each row of scores, in f32.

    With it, a backward can recompute any probability as `exp(score - log_sum_exp)`: Dao et al.,
    "FlashAttention" (2022), section 3.

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
