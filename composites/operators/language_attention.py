"""Attention of current language models: over a prompt, a static cache, and pages.

Scores may have a bound, a window of keys, and a sink for each head. Several heads of the query may
share a head of keys and values, which is not repeated for them. Attributes and positions determine
which keys a query attends to, not masks of the size of the scores.

`composites.operators.transformers_attention` calls these functions for models of transformers.
"""

import torch
from torch import Tensor
from torch.nn import functional

from composites.errors import InvalidCallError
from composites.operators.kv_caches import QuantizedRows
from composites.operators.opmath import opmath_type


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    *,
    scale: float,
    is_causal: bool = False,
    window: int | None = None,
    softcap: float | None = None,
    dropout_p: float = 0.0,
) -> Tensor:
    """Attention in which the last query has the position of the last key.

    The scores are `scale * query @ key`, then `softcap * tanh(scores / softcap)`. The lowest number
    of its type is added to an excluded score, so that a row without any key weighs all values
    alike. The softmax is in f32, and in f64 for f64.

    Gemma Team, "Gemma 2" (2024), section 2, has bounds; Jiang et al., "Mistral 7B" (2023), section
    2, windows.

    Args:
        query: `[N, Hq, L, E]`, floating point.
        key: `[N, H, S, E]`; H divides Hq, and Hq / H consecutive heads of the query share a head.
        value: `[N, H, S, Ev]`.
        attn_mask: bool (True takes part) or added to the scores; broadcast to `[N, Hq, L, S]`.
        is_causal: query i does not attend to keys after position S - L + i.
        window: with `is_causal`, the greatest number of last keys that a query attends to.
        dropout_p: the probability that a weight is dropped.

    Returns:
        `[N, Hq, L, Ev]`.
    """
    visible = _causal(query, key, window) if is_causal else None
    return _attend(query, key, value, visible, attn_mask, None, scale, softcap, dropout_p)


def sink_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    sinks: Tensor,
    attn_mask: Tensor | None = None,
    *,
    scale: float,
    is_causal: bool = False,
    window: int | None = None,
    softcap: float | None = None,
    dropout_p: float = 0.0,
) -> Tensor:
    """`attention` with one more score in each row: the sink of its head, which has no value.

    Xiao et al., "Efficient Streaming Language Models with Attention Sinks" (2023); OpenAI,
    "gpt-oss model card" (2025).

    Args:
        sinks: `[Hq]`. For the other arguments see `attention`.
    """
    visible = _causal(query, key, window) if is_causal else None
    return _attend(query, key, value, visible, attn_mask, sinks, scale, softcap, dropout_p)


def cached_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    positions: Tensor,
    sinks: Tensor | None = None,
    *,
    scale: float,
    window: int | None = None,
    softcap: float | None = None,
) -> Tensor:
    """Causal attention over a cache in which only the keys up to a position are valid.

    Args:
        query: `[N, Hq, L, E]`, floating point; often L is 1.
        key: `[N, H, S, E]`, the cache; H divides Hq, as in `attention`.
        value: `[N, H, S, Ev]`.
        positions: `[N, L]` or `[1, L]`, integers: the last key that each query attends to.
        sinks: `[Hq]`, as in `sink_attention`.
        window: the greatest number of last keys that a query attends to.

    Returns:
        `[N, Hq, L, Ev]`.
    """
    visible = _visible(positions.unsqueeze(1), key.shape[2], window)
    return _attend(query, key, value, visible, None, sinks, scale, softcap)


def quantized_cached_attention(
    query: Tensor,
    key: Tensor,
    key_scales: Tensor,
    value: Tensor,
    value_scales: Tensor,
    positions: Tensor,
    sinks: Tensor | None = None,
    *,
    scale: float,
    window: int | None = None,
    softcap: float | None = None,
) -> Tensor:
    """`cached_attention` over keys and values that `update_quantized_kv_cache` wrote.

    Args:
        query: `[N, Hq, L, E]`, floating point.
        key: `[N, H, S, E]`, i8.
        key_scales: `[N, H, S]`, f32. A key is its integers times its scale, of the query's type.
        value: `[N, H, S, Ev]`, i8.
        value_scales: `[N, H, S]`, f32.
        positions, sinks, scale, window, softcap: as in `cached_attention`.

    Returns:
        `[N, Hq, L, Ev]`.
    """
    keys = QuantizedRows(key, key_scales).dequantized(query.dtype)
    values = QuantizedRows(value, value_scales).dequantized(query.dtype)
    visible = _visible(positions.unsqueeze(1), key.shape[2], window)
    return _attend(query, keys, values, visible, None, sinks, scale, softcap)


def paged_attention(
    query: Tensor,
    key_pages: Tensor,
    value_pages: Tensor,
    lengths: Tensor,
    page_indices: Tensor,
    sinks: Tensor | None = None,
    *,
    scale: float,
    window: int | None = None,
    softcap: float | None = None,
) -> Tensor:
    """Attention of one query for each sequence, whose keys and values are in pages.

    Kwon et al., "Efficient Memory Management for Large Language Model Serving with PagedAttention"
    (2023). The operands are the same as for JAX's TPU kernel, `paged_attention` in
    `jax.experimental.pallas.ops.tpu`, whose query includes the scale.

    Args:
        query: `[N, Hq, E]`, floating point.
        key_pages: `[H, pages, page size, E]`, finite numbers, also after the last key; H divides
            Hq, as in `attention`.
        value_pages: `[H, pages, page size, Ev]`.
        lengths: `[N]`, integers: the number of keys of each sequence, at least 1.
        page_indices: `[N, M]`, integers: the pages of each sequence, in order. Indices after the
            last page of a sequence are ignored, but must be valid.
        sinks: `[Hq]`, as in `sink_attention`.
        window: the greatest number of last keys that a query attends to.

    Returns:
        `[N, Hq, Ev]`.
    """
    key, value = _gathered(key_pages, page_indices), _gathered(value_pages, page_indices)
    visible = _visible(lengths.reshape(-1, 1, 1) - 1, key.shape[2], window)
    attended = _attend(query.unsqueeze(2), key, value, visible, None, sinks, scale, softcap)
    return attended.squeeze(2)


def _gathered(pages: Tensor, page_indices: Tensor) -> Tensor:
    """Gather the keys or values of each sequence: `[N, H, M * page size, E]`."""
    heads, _, size, width = pages.shape
    batch, count = page_indices.shape
    chosen = pages.index_select(1, page_indices.reshape(-1))
    chosen = chosen.reshape(heads, batch, count * size, width)
    return chosen.transpose(0, 1)


def _causal(query: Tensor, key: Tensor, window: int | None) -> Tensor:
    length, keys = query.shape[2], key.shape[2]
    positions = torch.arange(length, device=query.device) + (keys - length)
    return _visible(positions, keys, window)


def _visible(positions: Tensor, keys: int, window: int | None) -> Tensor:
    """Return True where a query at each of the positions attends to each of the keys."""
    last = positions.unsqueeze(-1)
    key = torch.arange(keys, device=positions.device)
    visible = key <= last
    return visible if window is None else visible & (key > last - window)


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    visible: Tensor | None,
    attn_mask: Tensor | None,
    sinks: Tensor | None,
    scale: float,
    softcap: float | None,
    dropout_p: float = 0.0,
) -> Tensor:
    batch, heads, length, width = query.shape
    keys = key.shape[2]
    if heads % key.shape[1]:
        raise InvalidCallError(
            f"the key has {key.shape[1]} heads, which do not divide the query's {heads}"
        )
    # Query heads that share keys and values are more rows of one product.
    shared = batch, key.shape[1], heads // key.shape[1] * length
    scores = torch.matmul(query.reshape(*shared, width), key.transpose(2, 3)) * scale
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    scores = scores.reshape(batch, heads, length, keys)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        visible = attn_mask if visible is None else visible & attn_mask
    elif attn_mask is not None:
        scores = scores + attn_mask
    if visible is not None:
        # The mask is added, as in transformers, so that a row without any key has a gradient.
        lowest = scores.new_full((), torch.finfo(scores.dtype).min)
        scores = scores + torch.where(visible, 0.0, lowest)
    if sinks is not None:
        sink = sinks.reshape(1, -1, 1, 1).expand(batch, -1, length, 1)
        scores = torch.cat([scores, sink.to(scores.dtype)], -1)
    weights = functional.softmax(scores, -1, dtype=opmath_type(scores.dtype)).to(value.dtype)
    weights = weights[..., :keys]
    if dropout_p:
        weights = functional.dropout(weights, dropout_p)
    attended = torch.matmul(weights.reshape(*shared, keys), value)
    return attended.reshape(batch, heads, length, value.shape[3])
