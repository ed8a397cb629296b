"""Functions of language models that LiteRT has kernels for, as litert_lm.yaml names them.

PyTorch has no operators for them, so a model that is written for LiteRT calls them. Each function
is also the decomposition of its composite, which LiteRT runs wherever no delegate has a kernel.
B is the batch, T the new tokens, S and W the sizes of caches, N and Nkv the heads, H the size of a
head.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from litert_ops import rms_norm, rope
from torch import Tensor


def swiglu(gate_up: Tensor, gate_size: int) -> Tensor:
    """`silu(gate) * up`, where `gate_up` is `[…, 2 * gate_size]`, the gate first."""
    gate, up = gate_up[..., :gate_size], gate_up[..., gate_size:]
    return F.silu(gate) * up


def qkv_norm_rope(
    qkv: Tensor,
    position: Tensor,
    q_weight: Tensor,
    k_weight: Tensor,
    num_heads: int,
    num_kv_heads: int,
    head_dim: int,
    base: float = 1000000.0,
    epsilon: float = 1e-6,
) -> tuple[Tensor, Tensor, Tensor]:
    """Split `[B, T, (N + 2 Nkv) H]` into heads, normalize queries and keys, and rotate them.

    Args:
        position: `[1, 1, 1, T]`.
        q_weight, k_weight: weights of the norms, `[H]`.

    Returns:
        Queries `[B, N, T, H]`, keys and values `[B, Nkv, T, H]`.
    """
    heads = qkv.unflatten(-1, (-1, head_dim))
    last = num_heads + num_kv_heads
    queries = rms_norm(heads[:, :, :num_heads], q_weight, epsilon=epsilon).transpose(1, 2)
    keys = rms_norm(heads[:, :, num_heads:last], k_weight, epsilon=epsilon).transpose(1, 2)
    values = heads[:, :, last:].transpose(1, 2).clone()  # no view can be a result
    return rope(queries, position, base), rope(keys, position, base), values


def short_conv_step(
    in_proj_out: Tensor,
    conv_state: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    conv_L_cache: int = 3,
) -> tuple[Tensor, Tensor]:
    """One step of a gated convolution of each channel over the last `conv_L_cache` tokens.

    Args:
        in_proj_out: `[1, 1, 3 D]`, the gate of the input, that of the output, and the input.
        conv_state: inputs of the last steps, `[1, D, conv_L_cache - 1]`.
        weight: `[D, 1, conv_L_cache]`.
        bias: `[D]`.

    Returns:
        `[1, 1, D]`, and the next state.
    """
    gate, out_gate, x = in_proj_out.chunk(3, -1)
    seen = torch.cat([conv_state, (gate * x).transpose(1, 2)], -1)
    convolved = (seen * weight.transpose(0, 1)).sum(-1)
    if bias is not None:
        convolved = convolved + bias
    return out_gate * convolved.unsqueeze(1), seen[..., 1:]


def cache_update(
    new_k: Tensor,
    new_v: Tensor,
    param: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    k_start: Tensor,
    v_start: Tensor,
    kv_cache_batch_size: int,
    cache_size: int,
    head_size: int,
    is_ring_buffer: bool = False,
) -> tuple[Tensor, Tensor]:
    """Write new keys and values into their caches.

    Runtimes read the place from different operands, so all of them must say the same.

    Args:
        new_k, new_v: `[1, Nkv, T, H]`.
        param: `[1, 1, 1, 7]` in i32: the first slot, the one behind the last, an unused number, and
            the number of new rows if `is_ring_buffer`.
        k_cache: `[1, Nkv, S, H]`.
        v_cache: `[1, Nkv, H, S]`.
        k_start, v_start: `[0, 0, slot, 0]` and `[0, 0, 0, slot]` in i32.
        kv_cache_batch_size, cache_size, head_size: Nkv, S and H.
        is_ring_buffer: rows behind the last slot go to the first ones.

    Returns:
        The caches.
    """
    first = param[0, 0, 0, 0]
    count = param[0, 0, 0, 3] if is_ring_buffer else param[0, 0, 0, 1] - first
    new_v = new_v.transpose(2, 3)
    return (
        _with_rows(k_cache, new_k, 2, first, count, is_ring_buffer),
        _with_rows(v_cache, new_v, 3, first, count, is_ring_buffer),
    )


def _with_rows(
    cache: Tensor, new: Tensor, dim: int, first: Tensor, count: Tensor, is_ring_buffer: bool
) -> Tensor:
    """A cache in which the first `count` rows of `new` are in the slots from `first` on."""
    size = cache.shape[dim]
    rows = torch.arange(size, dtype=torch.int32, device=cache.device)
    if is_ring_buffer:
        rows = torch.fmod(rows + (size - torch.fmod(first, size)), size)
    else:
        rows = rows - first
    # A product of floats, because torch_xla combines booleans as unsigned bytes, which LiteRT does
    # not support.
    is_new = (rows >= 0).to(cache.dtype) * (rows < count).to(cache.dtype)
    is_new = is_new * (rows < new.shape[dim]).to(cache.dtype)
    written = new.index_select(dim, rows.clamp(0, new.shape[dim] - 1))
    along = [size if n == dim else 1 for n in range(cache.dim())]
    return torch.where(is_new.reshape(along) > 0, written, cache)


def runtime_bmm(
    a: Tensor,
    b: Tensor,
    param: Tensor,
    is_global: bool = False,
    is_src: bool = False,
    rhs_cache_update: bool = False,
) -> Tensor:
    """Products of `[B0, B1, M, K]` and `[B0, B1, N, K]`, `[B0, B1, M, N]`.

    Args:
        param: `[1, 1, 1, 7]` in i32. Runtimes read from its second or third number how many slots
            of a cache count, and may leave out the others, or not. So these must be zeros in `a`
            if `is_src`, and otherwise be masked in the result.
        is_src: the slots are K, as in the product of probabilities and values; otherwise N.
        rhs_cache_update: `b` is a result of `cache_update`.
    """
    return torch.matmul(a, b.transpose(2, 3))


def sdpa_transposed(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor, param: Tensor
) -> Tensor:
    """Attention to a cache.

    Args:
        query: `[B, N, T, H]`, multiplied by the scale. Queries that share a head are tokens to it.
        key: `[B, N, S, H]`.
        value: `[B, N, H, S]`.
        mask: `[1, 1, T, S]`, added to the scores. It has to leave out slots that are not filled.
        param: `[1, 1, 1, 7]` in i32, with the number of filled slots in both the second and the
            third place: runtimes skip the other slots.

    Returns:
        `[B, N, T, H]`.
    """
    scores = torch.matmul(query, key.transpose(2, 3)) + mask
    return torch.matmul(torch.softmax(scores, -1), value.transpose(2, 3))


def fused_sdpa_cache_update(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    key_new: Tensor,
    value_new: Tensor,
    mask: Tensor,
    param: Tensor,
    softcap: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Attention to a ring of slots and to new tokens, which are written to the ring afterwards
    (ml_drift_delegate/delegate/composite/fused_sdpa_cache_update_kernel_test.cc of LiteRT).

    Args:
        query: `[1, Nkv, G * T, H]`, multiplied by the scale, all tokens of a query head first.
        key_cache: `[1, Nkv, W, H]`.
        value_cache: `[1, Nkv, H, W]`.
        key_new: `[1, Nkv, T, H]`.
        value_new: `[1, Nkv, H, T]`.
        mask: `[1, 1, T, W + T]`, added to the scores.
        param: `[1, 1, 1, 7]` in i32: the position of the first new token, and the one behind the
            last.
        softcap: scores become `softcap * tanh(scores / softcap)`.

    Returns:
        `[1, Nkv, G * T, H]`, and the caches.
    """
    first, count = param[0, 0, 0, 0], param[0, 0, 0, 1] - param[0, 0, 0, 0]
    size, tokens = key_cache.shape[2], key_new.shape[2]
    keys, values = torch.cat([key_cache, key_new], 2), torch.cat([value_cache, value_new], 3)
    scores = torch.matmul(query, keys.transpose(2, 3))
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    scores = scores + mask.repeat(1, 1, query.shape[2] // tokens, 1)
    slots = torch.arange(size + tokens, dtype=torch.int32, device=query.device)
    # New tokens count, and so do the slots that earlier ones have filled.
    filled = torch.where(slots < size, slots - first, -1) < 0
    scores = torch.where(filled, scores, torch.finfo(scores.dtype).min)
    return (
        torch.matmul(torch.softmax(scores, -1), values.transpose(2, 3)),
        _with_rows(key_cache, key_new, 2, first, count, True),
        _with_rows(value_cache, value_new, 3, first, count, True),
    )


def moe_experts(
    tokens: Tensor,
    routing_weights: Tensor,
    expert_indices: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
    scale: Tensor,
) -> Tensor:
    """The weighted sum of what A of E experts make of each token (tflite/delegates/ynnpack/moe.cc
    of LiteRT). The decomposition computes all experts.

    Args:
        tokens: `[B, T, D]`.
        routing_weights: `[B, T, A]`.
        expert_indices: `[B, T, A]` in i32.
        gate, up: `[F, E, 1, D]`.
        down: `[D, E, 1, F]`.
        scale: `[1, 1, 1, 1]`, or `[1, 1, 1, E]` for a factor of each expert.
    """
    gates, ups, downs = (weight.squeeze(2).transpose(0, 1) for weight in (gate, up, down))
    x = tokens.unsqueeze(2)  # [B, T, 1, D], and [E, D, F] of each expert
    hidden = _of_experts(x, gates)
    hidden = F.gelu(hidden, approximate="tanh") * _of_experts(x, ups)
    results = (hidden.unsqueeze(3) @ downs.transpose(1, 2)).squeeze(3)
    experts = torch.arange(gates.shape[0], dtype=torch.int32, device=tokens.device)
    chosen = (expert_indices.unsqueeze(-1) == experts).to(tokens.dtype)
    weights = (chosen * routing_weights.unsqueeze(-1)).sum(2) * scale.reshape(-1)
    return (results * weights.unsqueeze(-1)).sum(2)


def _of_experts(x: Tensor, weights: Tensor) -> Tensor:
    """Products of `[B, T, 1, D]` and each of `[E, F, D]`, `[B, T, E, F]`."""
    return (x.unsqueeze(3) @ weights.transpose(1, 2)).squeeze(3)
