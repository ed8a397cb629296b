"""Linear attention of language models, computed in blocks of positions: lightning attention, and
delta rules, which correct a state before adding to it."""

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from composites.errors import UnsupportedCallError
from composites.operators.scans import check_not_packed

Values = tuple[Tensor, Tensor]
"""The result and the last state."""


def lightning_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    slope_rate: Tensor,
    query_decay: Tensor,
    key_decay: Tensor,
    diagonal_decay: Tensor,
) -> Values:
    """Attention without softmax, in blocks of `B` positions. Weights decay with the distance.

    Qin et al., "Lightning Attention-2" (2024). With the slope `s` of a head,

        state_t = exp(-s) state_{t-1} + key_t^T value_t,    result_t = query_t state_t

    Args:
        query, key, value: `[N, H, L, C]`, floating point.
        slope_rate: `[H, 1, 1]`.
        query_decay, key_decay: `[H, B, 1]`, the decay from the start of a block, and to its end.
        diagonal_decay: `[1, H, B, B]`, the decay from the column to the row, 0 above the diagonal.

    Returns:
        The result, `[N, H, L, C]`, and the last state, `[N, H, C, C]`.
    """
    batch, heads, length, width = value.shape
    state = torch.zeros(batch, heads, width, width, dtype=value.dtype, device=value.device)
    results = []
    for start in range(0, length, query_decay.shape[1]):
        q, k, v = (x[:, :, start : start + query_decay.shape[1]] for x in (query, key, value))
        size = q.shape[2]
        block_decay = torch.exp(-slope_rate * size)
        scores = torch.matmul(q, k.transpose(-1, -2))
        within = torch.matmul(scores * diagonal_decay[:, :, :size, :size], v)
        before = torch.matmul(q * query_decay[:, :size], state)
        results.append(before + within)
        added = torch.matmul((k * key_decay[:, -size:]).transpose(-1, -2), v)
        state = state * block_decay + added
    return torch.cat(results, dim=-2), state


def lightning_attention_of_module(
    composite: Callable[..., Values],
    module: Any,
    hidden_states: Tensor,
    position_embeddings: Any = None,
    attention_mask: Tensor | None = None,
    past_key_values: Any = None,
    cache: Any = None,
    **kwargs: Any,
) -> Values:
    """Run `MiniMaxLightningAttention.forward`. The composite is the part between projections."""
    layer, cache = module.layer_idx, past_key_values if cache is None else cache
    if cache is not None and cache.get_linear_cache(layer) is not None:
        raise UnsupportedCallError("the call passes a recurrent state")
    masked = sys.modules[type(module).__module__].apply_mask_to_padding_states
    projected = masked(module.act_fn(module.qkv_proj(hidden_states)), attention_mask)
    heads = projected.unflatten(-1, (module.num_attention_heads, 3 * module.head_dim))
    result, state = composite(
        *(x.transpose(1, 2) for x in torch.split(heads, module.head_dim, dim=3)),
        module.slope_rate,
        module.query_decay,
        module.key_decay,
        module.diagonal_decay,
    )
    normed = module.norm(result.transpose(1, 2).flatten(2))
    gated = torch.sigmoid(module.output_gate(hidden_states)) * normed
    if cache is not None:
        cache.set_linear_cache(layer, state)
    return module.out_proj(gated), state


def gated_delta_rule(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    g: Tensor,
    beta: Tensor,
    initial_state: Tensor | None = None,
    *,
    chunk_size: int,
    use_qk_l2norm: bool,
) -> Values:
    """The gated delta rule: Yang, Kautz and Hatamizadeh, "Gated Delta Networks" (2024).

        state_t = exp(g_t) state_{t-1}
        state_t += beta_t key_t^T (value_t - key_t state_t),    result_t = query_t state_t / sqrt(C)

    All arithmetic is in f32, in chunks of positions, as in section 3.3 of the paper.

    Args:
        query, key: `[N, L, G, C]`, floating point, and divided by their norm if `use_qk_l2norm`.
        value: `[N, L, H, V]`; G divides H.
        g, beta: `[N, L, H]`.
        initial_state: `[N, H, C, V]`; zero if None.

    Returns:
        The result, `[N, L, H, V]` in the dtype of `query`, and the last state, `[N, H, C, V]`.
    """
    heads = value.shape[2]
    if key.shape[2] != heads:
        query, key = (x.repeat_interleave(heads // key.shape[2], dim=2) for x in (query, key))
    return _delta_rule(
        *(query, key, value, g, beta, initial_state),
        chunk_size=chunk_size,
        normalize=_normalized if use_qk_l2norm else None,
        products=lambda left, right, decay: (left @ right.transpose(-1, -2)) * decay,
    )


def kimi_delta_rule(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    g: Tensor,
    beta: Tensor,
    initial_state: Tensor | None = None,
    *,
    chunk_size: int,
    use_qk_l2norm: bool,
) -> Values:
    """The delta rule of `gated_delta_rule` with a decay for each channel of the keys: Kimi Team,
    "Kimi Linear" (2025).

    Args:
        query, key, g: `[N, L, H, C]`, floating point. `query` and `key` are divided by their norm
            if `use_qk_l2norm`.
        value: `[N, L, H, V]`.
        beta: `[N, L, H]`.
        initial_state: `[N, H, C, V]`; zero if None.

    Returns:
        See `gated_delta_rule`.
    """
    return _delta_rule(
        *(query, key, value, g, beta, initial_state),
        chunk_size=chunk_size,
        normalize=_divided_by_norm if use_qk_l2norm else None,
        products=_decayed_products,
    )


def _delta_rule(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    g: Tensor,
    beta: Tensor,
    initial_state: Tensor | None,
    *,
    chunk_size: int,
    normalize: Callable[[Tensor], Tensor] | None,
    products: Callable[[Tensor, Tensor, Tensor], Tensor],
) -> Values:
    """The delta rule with logarithms of decays `g` per head, `[N, L, H]`, or per channel.

    Args:
        normalize: applied to `query` and `key`.
        products: multiplies each row of a chunk `[N, H, B, C]` with each row of another chunk, and
            with the decay between them, `[N, H, B, B]` or `[N, H, B, B, C]`.
    """
    length, dtype = value.shape[1], query.dtype
    has_channels = g.dim() == 4
    query, key, value, beta, g = (_by_heads(x) for x in (query, key, value, beta, g))
    if normalize is not None:
        query, key = normalize(query), normalize(key)
    query = query * query.shape[-1] ** -0.5
    padding = (chunk_size - length % chunk_size) % chunk_size
    query, key, value = (functional.pad(x, (0, 0, 0, padding)) for x in (query, key, value))
    beta, g = (functional.pad(x, (0, 0) * (x.dim() - 3) + (0, padding)) for x in (beta, g))
    weighted_value = value * beta.unsqueeze(-1)
    weighted_key = key * beta.unsqueeze(-1)
    query, key, weighted_key, weighted_value, g = (
        x.reshape(*x.shape[:2], -1, chunk_size, *x.shape[3:])
        for x in (query, key, weighted_key, weighted_value, g)
    )

    def by_channels(decay: Tensor) -> Tensor:
        return decay if has_channels else decay.unsqueeze(-1)

    summed = g.cumsum(dim=3)
    later = torch.ones(chunk_size, chunk_size, dtype=torch.bool, device=query.device).triu(1)
    decay = summed.unsqueeze(4) - summed.unsqueeze(3)
    decay = decay.masked_fill(later[..., None] if has_channels else later, float("-inf")).exp()
    system = products(weighted_key, key, decay)
    within = products(query, key, decay)
    decayed_key = weighted_key * by_channels(summed.exp())
    # The values that a chunk adds are `proposed - stored @ state`; both solve the same system.
    proposed, stored = (_solution(system, x) for x in (weighted_value, decayed_key))

    state = _state_before(initial_state, proposed, key)
    query = query * by_channels(summed.exp())
    key = key * by_channels((summed.narrow(3, chunk_size - 1, 1) - summed).exp())
    chunk_decay = by_channels(summed.select(3, -1).exp()).unsqueeze(-1)
    results = []
    for i in range(query.shape[2]):
        added = proposed[:, :, i] - stored[:, :, i] @ state
        results.append(query[:, :, i] @ state + within[:, :, i] @ added)
        state = state * chunk_decay[:, :, i] + key[:, :, i].transpose(-1, -2) @ added
    return _by_positions(results, length, dtype), state


def _decayed_products(left: Tensor, right: Tensor, decay: Tensor) -> Tensor:
    return (left.unsqueeze(-2) * right.unsqueeze(-3) * decay).sum(dim=-1)


def _by_heads(tensor: Tensor) -> Tensor:
    """Transpose `[N, L, H, …]` to `[N, H, L, …]`, in f32."""
    return tensor.transpose(1, 2).to(torch.float32, memory_format=torch.contiguous_format)


def _normalized(tensor: Tensor) -> Tensor:
    return tensor * torch.rsqrt((tensor * tensor).sum(dim=-1, keepdim=True) + 1e-6)


def _divided_by_norm(tensor: Tensor) -> Tensor:
    return tensor / torch.sqrt((tensor * tensor).sum(dim=-1, keepdim=True) + 1e-6)


def _solution(system: Tensor, values: Tensor) -> Tensor:
    if values.device.type == "xla":  # torch_xla lowers only the older of the two operators
        solved: Tensor = torch.triangular_solve(values, system, upper=False, unitriangular=True)[0]
    else:
        solved = torch.linalg.solve_triangular(system, values, upper=False, unitriangular=True)
    return solved


def _state_before(initial_state: Tensor | None, value: Tensor, key: Tensor) -> Tensor:
    if initial_state is not None:
        return initial_state.to(value)
    shape = (*value.shape[:2], key.shape[-1], value.shape[-1])
    return torch.zeros(shape, dtype=value.dtype, device=value.device)


def _by_positions(chunks: list[Tensor], length: int, dtype: torch.dtype) -> Tensor:
    """Join chunks `[N, H, B, V]` to `[N, L, H, V]`, without padding."""
    result = torch.stack(chunks, dim=2).flatten(2, 3)[:, :, :length]
    return result.transpose(1, 2).to(dtype, memory_format=torch.contiguous_format)


def chunk_delta_rule(
    composite: Callable[..., Values],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    g: Tensor,
    beta: Tensor,
    chunk_size: int = 64,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """Adapt `torch_chunk_gated_delta_rule` and `chunk_kimi_delta_attention` of transformers."""
    check_not_packed(kwargs)
    result, state = composite(
        *(query, key, value, g, beta, initial_state),
        chunk_size=chunk_size,
        use_qk_l2norm=use_qk_l2norm_in_kernel,
    )
    return result, state if output_final_state else None
