"""Caches of keys and values that are ring buffers, or are stored as integers.

In: the tensors of a cache, and the positions and rows of new tokens; out: the updated tensors.
`composites.operators.transformers_caches` calls these functions for models of transformers.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class QuantizedRows(NamedTuple):
    """Keys or values as integers, with one scale per row."""

    rows: Tensor
    """`[N, H, S, E]`, i8."""
    scales: Tensor
    """`[N, H, S]`, f32."""

    def dequantized(self, dtype: torch.dtype) -> Tensor:
        """Return the rows in a float type."""
        return (self.rows.to(torch.float32) * self.scales.unsqueeze(-1)).to(dtype)


def quantize_rows(source: Tensor) -> QuantizedRows:
    """Quantize each row: its largest magnitude becomes 127, and halves are rounded to even.

    Args:
        source: `[N, H, L, E]`, floating point. A row of zeros gets the scale 0.
    """
    wide = source.to(torch.float32)
    scales = wide.abs().amax(-1) * (1 / 127)
    divisors = torch.where(scales > 0, scales, 1.0).unsqueeze(-1)
    rows = (wide / divisors).round().clamp(-127, 127)
    return QuantizedRows(rows.to(torch.int8), scales)


def update_ring_kv_cache(self: Tensor, positions: Tensor, source: Tensor) -> Tensor:
    """Write rows to a ring buffer: position p is in slot p modulo S.

    Args:
        self: `[N, H, S, E]`, the ring buffer.
        positions: `[L]`, consecutive integers. If there are more than S, only the last S rows are
            written.
        source: `[N, H, L, E]`, the rows of these positions.

    Returns:
        The updated ring buffer.
    """
    slots, rows = _last(self.shape[2], positions, source, is_ring=True)
    return self.index_copy(2, slots, rows)


def update_quantized_kv_cache(
    self: Tensor, scales: Tensor, positions: Tensor, source: Tensor, *, is_ring: bool = False
) -> tuple[Tensor, Tensor]:
    """Quantize rows as `quantize_rows` does, and write them and their scales to a cache.

    Args:
        self: `[N, H, S, E]`, i8, the cache.
        scales: `[N, H, S]`, f32: the factor of each row of the cache.
        positions: `[L]`, consecutive integers: the rows of the cache that are written.
        source: `[N, H, L, E]`, floating point.
        is_ring: write to a ring buffer, as `update_ring_kv_cache` does.

    Returns:
        The updated cache and scales.
    """
    slots, written = _last(self.shape[2], positions, source, is_ring=is_ring)
    rows, row_scales = quantize_rows(written)
    return self.index_copy(2, slots, rows), scales.index_copy(2, slots, row_scales)


def _last(size: int, positions: Tensor, source: Tensor, *, is_ring: bool) -> tuple[Tensor, Tensor]:
    """Return the slots of a cache for the last positions, and the rows of these positions."""
    start = max(source.shape[2] - size, 0)
    last = positions[start:]
    slots = ring_slots(last, size) if is_ring else last.to(torch.int64)
    return slots, source[:, :, start:]


def ring_slots(positions: Tensor, size: int) -> Tensor:
    """Return the slots of positions in a ring buffer, i64. LiteRT has only a remainder of i32."""
    return torch.fmod(positions.to(torch.int32), size).to(torch.int64)
