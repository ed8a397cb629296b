"""`attn_implementation="composites"` of transformers.

transformers calls `attention_mask` for the mask of each kind of layer, and passes the mask to the
attention of each layer, `attention_forward`. If the mask only says that attention is causal, has a
window, or ends within a cache, a small value replaces it, which models pass on without reading it:

- None: attention that is causal if the module is, with the last query at the position of the last
  key;
- `[N, 1, 1, S]`, i8: the same, with 0 for keys that are padding. If N is 0, there is no padding.
  Only the first S keys take part;
- `[N, 1, 2, S]`, i8: the same rows twice, which means the window that the module passes;
- `[1, 1, L, 1]`, i64: the positions of the queries in a static cache, or among the keys of a ring
  buffer; `[1, 1, L, 2]` has the positions twice, which means a window too.

All have four dimensions, because models accept four-dimensional masks of `generate` unchanged.
Other masks are bool or floating point, as for PyTorch's attention. Keys and values are tensors, or
`QuantizedRows` of a `KVCache`.

`lowering.autoload` imports this module after transformers, and calls `register`.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers import masking_utils, modeling_utils
from transformers.utils import import_utils

from composites.errors import InvalidCallError
from composites.operators import language_attention
from composites.operators.kv_caches import QuantizedRows

NAME = "composites"


def register() -> None:
    """Register the implementation in transformers."""
    modeling_utils.AttentionInterface.register(NAME, attention_forward)
    masking_utils.AttentionMaskInterface.register(NAME, attention_mask)


def attention_forward(
    module: Any,
    query: Tensor,
    key: Any,
    value: Any,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    sliding_window: int | None = None,
    s_aux: Tensor | None = None,
    is_causal: bool | None = None,
    position_bias: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Compute attention for transformers. Arguments for other implementations are ignored, as in
    transformers' function for PyTorch's attention.

    Args:
        key: a tensor or `QuantizedRows`, like the value.

    Returns:
        `[N, L, Hq, Ev]`, and None instead of weights.
    """
    for name in ("sinks", "indices", "block_indices"):  # they change which keys a query attends to
        if kwargs.get(name) is not None:
            raise InvalidCallError(
                f'{type(module).__name__} passes {name} to its attention; use "eager"'
            )
    batch = (key.rows if isinstance(key, QuantizedRows) else key).shape[0]
    if query.shape[0] != batch:  # learned queries, which all sequences share
        query = query.expand(batch, -1, -1, -1)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    mask, window = attention_mask, None
    kind = None if mask is None else mask.dtype
    if mask is not None and kind in _TWICE and mask.shape[_TWICE[kind]] == 2:
        window = sliding_window
        if window is None:
            raise InvalidCallError(
                f'{type(module).__name__} passes no sliding_window to its attention; use "sdpa"'
            )
    if mask is not None and kind == torch.int64:
        operands: Any = (mask[:, 0, :, 0], s_aux)
        rules: dict[str, Any] = {"scale": scale, "window": window, "softcap": softcap}
        if isinstance(key, QuantizedRows):
            attended = language_attention.quantized_cached_attention(
                query, *key, *value, *operands, **rules
            )
        else:
            attended = language_attention.cached_attention(query, key, value, *operands, **rules)
        return attended.transpose(1, 2).contiguous(), None
    if isinstance(key, QuantizedRows):
        key, value = key.dequantized(query.dtype), value.dequantized(query.dtype)
    if mask is not None and kind == torch.int8:
        keys = mask.shape[-1]
        key, value = key[:, :, :keys], value[:, :, :keys]
        mask = mask[:, :, :1].to(torch.bool) if mask.shape[0] else None
    elif mask is not None:
        causal = False
    if position_bias is not None:
        bias = position_bias[..., : key.shape[2]]
        mask = bias if mask is None else _added(bias, mask)
    options: dict[str, Any] = {
        "scale": scale, "is_causal": causal and (query.shape[2] > 1 or window is not None),
        "window": window, "softcap": softcap, "dropout_p": dropout if module.training else 0.0,
    }  # fmt: skip
    if s_aux is None:
        attended = language_attention.attention(query, key, value, mask, **options)
    else:
        attended = language_attention.sink_attention(query, key, value, s_aux, mask, **options)
    return attended.transpose(1, 2).contiguous(), None


_TWICE = {torch.int8: 2, torch.int64: 3}
"""The types of values that replace masks, and the dimension that is doubled for a window."""


def _added(bias: Tensor, mask: Tensor) -> Tensor:
    if mask.dtype == torch.bool:
        return torch.where(mask, bias, torch.finfo(bias.dtype).min)
    return bias + mask


def attention_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int | Tensor = 0,
    kv_offset: Any = 0,
    mask_function: Callable[..., Any] = masking_utils.causal_mask_function,
    attention_mask: Tensor | None = None,
    local_size: int | None = None,
    allow_is_causal_skip: bool = True,
    allow_is_bidirectional_skip: bool | None = None,
    use_vmap: bool = False,
    device: torch.device | str = "cpu",
    config: Any = None,
    **kwargs: Any,
) -> Tensor | None:
    """Make a mask, or the small value that replaces it; see the docstring of this module.

    Args:
        q_offset: the position of the first query; a tensor for a static cache.
        kv_offset: the position of the first key; a tensor for a ring buffer.
        attention_mask: `[N, positions]`, False for padding.
        allow_is_bidirectional_skip: not None only for attention that is not causal.
    """
    if local_size is None:
        is_simple = mask_function is masking_utils.causal_mask_function
    else:
        is_simple = allow_is_bidirectional_skip is None and _is_window(local_size, config)
    # transformers allows no skip for a token that is decoded with a static cache.
    is_decoded = q_length == 1 and not use_vmap and not asks_for_masks(config)
    is_simple = is_simple and (allow_is_causal_skip or is_decoded)
    is_static = isinstance(q_offset, Tensor)
    keys = kv_length
    if isinstance(kv_offset, Tensor):
        if not is_simple and (q_length == 1 or attention_mask is not None):
            raise InvalidCallError(
                "a KVCache whose windows are rings has no masks but those of padding; use the"
                ' StaticCache of transformers, or another attn_implementation, such as "sdpa"'
            )
        if is_simple:
            if attention_mask is not None:
                attention_mask = _ring_padding(attention_mask, q_length, q_offset, kv_offset, keys)
            q_offset, kv_offset = q_offset - kv_offset, 0
            local_size = None if q_length == 1 else local_size  # one query sees all keys
    if not is_static and q_offset == kv_offset == 0:
        keys = q_length  # a prompt; a static cache has more slots
    if is_simple:
        end = q_offset + q_length
        padding = _padding(attention_mask, end, kv_offset, keys)
        if not is_static and end == kv_offset + keys:
            has_window = local_size is not None and local_size < keys
            if padding is None and keys == kv_length and not has_window:
                return None
            if padding is None:
                padding = torch.ones(0, keys, device=device)
            rows = padding.to(torch.int8)[:, None, None]
            return rows.expand(-1, -1, 1 + has_window, -1)
        if padding is None:
            positions: Tensor = torch.arange(q_length, device=device) + (q_offset - kv_offset)
            return positions.reshape(1, 1, -1, 1).expand(-1, -1, -1, 1 if local_size is None else 2)
    sdpa_mask: Any = masking_utils.sdpa_mask  # its annotations do not allow tensors as offsets
    mask: Tensor | None = sdpa_mask(
        batch_size, q_length, kv_length, q_offset, kv_offset, mask_function, attention_mask,
        local_size, allow_is_causal_skip=False, use_vmap=use_vmap, device=device,
        allow_is_bidirectional_skip=bool(allow_is_bidirectional_skip),
    )  # fmt: skip
    return mask


def _ring_padding(mask: Tensor, length: int, q_offset: Any, kv_offset: Tensor, keys: int) -> Tensor:
    """Select the padding mask of the keys that a layer with a ring buffer returns, `[N, keys]`."""
    indices = torch.arange(keys, device=mask.device)
    # One query gets the ring buffer itself, in which position p is in slot p modulo the size.
    positions = q_offset - (q_offset - indices) % keys if length == 1 else indices + kv_offset
    return mask.index_select(1, positions.clamp(0, mask.shape[1] - 1))


def _is_window(local_size: int, config: Any) -> bool:
    """Return whether `local_size` is the size of a window, not of a chunk."""
    chunk = getattr(config, "attention_chunk_size", None)
    return local_size == getattr(config, "sliding_window", None) and chunk is None


def asks_for_masks(config: Any) -> bool:
    """Return whether a model reads its masks, and therefore does not allow skipping them."""
    return str(getattr(config, "model_type", "")).startswith(_WITH_MASKS)


_WITH_MASKS = ("diffusion_gemma", "doge", "dots3", "mistral_large4")


def _padding(mask: Tensor | None, end: int | Tensor, kv_offset: int, keys: int) -> Tensor | None:
    """Return a mask of the keys that are not padding, `[N, keys]`, or None if the values show that
    no key up to the last query is padding."""
    if mask is None:
        return None
    # Values cannot be read in a traced graph, and should not be read on a device with lazy graphs.
    has_values = not import_utils.is_tracing(mask) and mask.device.type != "xla"
    if has_values and mask.shape[-1] >= int(end) and bool(mask.all()):
        return None
    padded: Any = masking_utils.prepare_padding_mask(mask, keys, kv_offset)
    selected: Tensor = padded[:, kv_offset : kv_offset + keys]
    return selected
