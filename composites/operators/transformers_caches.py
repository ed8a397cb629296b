"""A static cache for transformers with ring buffers for windows, and optionally integer rows.

Its layers return keys and values, or `QuantizedRows`, for
`composites.operators.transformers_attention`.
"""

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import StaticCache, StaticLayer, StaticSlidingWindowLayer
from transformers.generation.utils import ALL_CACHE_NAMES

from composites.errors import InvalidCallError
from composites.operators import kv_caches
from composites.operators.kv_caches import QuantizedRows, quantize_rows, ring_slots


class LengthsCache(StaticCache):
    """A static cache whose lengths do not change after they are read.

    A layer of a `StaticCache` returns the tensor to which its `update` writes, so a model that
    reads a length, updates the layer, and then uses the length has wrong positions (Inkling, in
    transformers 5.24).
    """

    def get_seq_length(self, layer_idx: int = 0) -> Any:
        """Return the number of tokens in a layer."""
        length = super().get_seq_length(layer_idx)
        return length.clone() if isinstance(length, Tensor) else length


class KVCache(LengthsCache):
    """A static cache for models with `attn_implementation="composites"`.

    A layer with a sliding window keeps only the keys and values of the window, in a ring buffer:
    the token at position p is in slot p modulo the window. With `dtype=torch.int8`, all keys and
    values are integers with a scale for each token and head.

        cache = composites.KVCache(model.config, max_cache_len=64, dtype=torch.int8)
        tokens = model.generate(prompt, cache=cache, max_length=64)

    Args:
        config: the configuration of the model.
        max_cache_len: the number of tokens that layers without a window hold.
        dtype: None for the type of the keys, or `torch.int8`.

    Raises:
        InvalidCallError: `dtype` is another type, or the model has layers that do not support it.
    """

    argument = ALL_CACHE_NAMES[0]
    """The argument for a cache: `cache`, or `past_key_values` before transformers 5.24."""

    def __init__(self, config: Any, max_cache_len: int, dtype: torch.dtype | None = None) -> None:
        if dtype not in (None, torch.int8):
            raise InvalidCallError(f"dtype of a KVCache must be None or torch.int8, not {dtype}")
        super().__init__(config=config, max_cache_len=max_cache_len)
        self.config = config.get_text_config(decoder=True)
        self.max_length, self.dtype = max_cache_len, dtype
        # Chunked attention has masks with the starts of chunks, and no sliding window.
        has_chunks = getattr(self.config, "attention_chunk_size", None) is not None
        self.layers = [self._layer(layer, has_chunks=has_chunks) for layer in self.layers]

    def _layer(self, layer: Any, *, has_chunks: bool) -> Any:
        if type(layer) not in (StaticLayer, StaticSlidingWindowLayer):
            if self.dtype is not None and isinstance(layer, StaticLayer):
                kind = type(layer).__name__
                raise InvalidCallError(f"a {kind} cannot have integers; leave out dtype")
            return layer
        is_ring = layer.max_cache_len < self.max_length and not has_chunks
        size = layer.max_cache_len if is_ring else self.max_length
        return CacheLayer(size, is_ring=is_ring, is_quantized=self.dtype is not None)

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Any, Any]:
        """Write rows of a layer, and return the keys and values to which its queries attend."""
        if self.config._attn_implementation != "composites":
            raise InvalidCallError(
                'a KVCache needs model.set_attn_implementation("composites"); the implementation is'
                f" {self.config._attn_implementation!r}"
            )
        return super().update(key_states, value_states, layer_idx, *args, **kwargs)


class CacheLayer(StaticLayer):  # type: ignore[no-untyped-call]
    """A layer of a `KVCache`."""

    keys: Any
    values: Any

    def __init__(self, size: int, *, is_ring: bool, is_quantized: bool) -> None:
        super().__init__(size)
        self.is_sliding = is_ring
        self.is_croppable = self.is_croppable and not is_ring  # tokens overwrite earlier ones
        self.is_quantized = is_quantized
        self.key_scales: Any = None
        self.value_scales: Any = None

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Allocate the tensors for keys and values like these."""
        if self.is_quantized:
            key_states, value_states = key_states.to(torch.int8), value_states.to(torch.int8)
        super().lazy_initialization(key_states, value_states)
        if self.is_quantized:
            shape = self.keys.shape[:3]
            self.key_scales = self.keys.new_zeros(shape, dtype=torch.float32)
            self.value_scales = self.keys.new_zeros(shape, dtype=torch.float32)

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Any, Any]:
        """Write rows, and return the keys and values to which their queries attend."""
        is_first, length = not self.is_initialized, key_states.shape[2]
        if is_first:
            self.lazy_initialization(key_states, value_states)
        positions = torch.arange(length, device=self.keys.device) + self.cumulative_length
        keys, values = self.keys, self.values
        if self.is_quantized:
            keys = QuantizedRows(keys, self.key_scales)
            values = QuantizedRows(values, self.value_scales)
        if self.is_sliding and is_first:
            keys, values = key_states, value_states
            if self.is_quantized:
                keys, values = quantize_rows(keys), quantize_rows(values)
        elif self.is_sliding and length > 1:
            # A later token may overwrite a key to which an earlier token attends.
            indices = self._indices(length)
            keys, values = (
                _gathered(keys, key_states, indices),
                _gathered(values, value_states, indices),
            )
        self._write(positions, key_states, value_states)
        self.cumulative_length.add_(length)
        return keys, values

    def _indices(self, length: int) -> Tensor:
        """Return the indices of the keys to which new tokens attend, in the order of positions. The
        new keys follow the slots of the ring buffer."""
        size = self.max_cache_len
        count, offset = self.get_mask_sizes(length)
        positions = torch.arange(count, device=self.keys.device) + offset
        added = positions - self.cumulative_length
        # Queries do not attend to positions after the last query, so any index will do.
        new = (added + size).clamp(max=size + length - 1)
        return torch.where(added < 0, ring_slots(positions, size), new)

    def _write(self, positions: Tensor, keys: Tensor, values: Tensor) -> None:
        for rows, scales, source in (
            (self.keys, self.key_scales, keys),
            (self.values, self.value_scales, values),
        ):
            if self.is_quantized:
                written, written_scales = kv_caches.update_quantized_kv_cache(
                    rows, scales, positions, source, is_ring=self.is_sliding
                )
                rows.copy_(written)
                scales.copy_(written_scales)
            elif self.is_sliding:
                rows.copy_(kv_caches.update_ring_kv_cache(rows, positions, source))
            else:
                rows.index_copy_(2, positions, source)

    def get_mask_sizes(self, query_length: int) -> tuple[int, Any]:
        """Return the number of keys to which queries attend, and the position of the first key."""
        if not self.is_sliding:
            return self.max_cache_len, 0
        if not self.is_initialized:
            return query_length, 0
        earlier = self.max_cache_len - 1
        return earlier + query_length, (self.cumulative_length - earlier).clamp(min=0)

    def reorder_cache(self, beam_idx: Any) -> None:
        """Reorder the sequences, for beam search."""
        super().reorder_cache(beam_idx)
        if self.is_quantized and self.is_initialized:
            order = beam_idx.to(self.key_scales.device)
            self.key_scales = self.key_scales.index_select(0, order)
            self.value_scales = self.value_scales.index_select(0, order)


def _gathered(earlier: Any, later: Tensor, indices: Tensor) -> Any:
    """Select rows from a ring buffer followed by new rows."""
    if isinstance(earlier, QuantizedRows):
        pairs = zip(earlier, quantize_rows(later), strict=True)
        return QuantizedRows(*(_gathered(*pair, indices) for pair in pairs))
    return torch.cat([earlier, later], 2).index_select(2, indices)
