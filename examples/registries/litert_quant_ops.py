"""The functions that litert_quant.yaml names: adapters, and functions of models.

The decompositions are in litert_quant_jax, where lists of numbers are constants of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from composites.errors import UnsupportedCallError

Composite = Callable[..., Tensor]

LIMITS = {"i2": (-2, 1), "i4": (-8, 7), "ui4": (0, 15), "i8": (-128, 127), "i16": (-32768, 32767)}
"""The smallest and the largest integer of each storage type that the converter reads
(GetStorageParams in tflite/converter/transforms/lower_quant_annotations_helper.cc of LiteRT)."""

STORED = {"i8": torch.int8, "i16": torch.int16}
"""Storage types that PyTorch has tensors of."""


def fake_quant_channels(x: Tensor, scales: Sequence[float], axis: int, dtype: str = "i8") -> Tensor:
    """The integers that a tensor is rounded to, times the scale of its slice along a dimension.

    The integers are those of a storage type, but for the smallest, so that there are as many
    negative ones as positive ones.
    """
    factors = _of_slices(x, scales, axis)
    lowest, highest = LIMITS[dtype]
    return torch.round(x * (1.0 / factors)).clamp(lowest + 1, highest) * factors


def dequantize_channels(x: Tensor, scales: Sequence[float], axis: int) -> Tensor:
    """Integers of eight bits, times the scale of their slice along a dimension."""
    return x.to(torch.float32) * _of_slices(x, scales, axis)


def to_fake_quant(
    composite: Composite,
    self: Tensor,
    scale: float,
    zero_point: int,
    quant_min: int,
    quant_max: int,
) -> Tensor:
    """Adapt `aten::fake_quantize_per_tensor_affine`."""
    storage = _storage(quant_min, quant_max)
    return composite(self, scale=[scale], zero_point=[zero_point], **storage)


def to_quantize(
    composite: Composite,
    input: Tensor,
    scale: float,
    zero_point: int,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
) -> Tensor:
    """Adapt `quantized_decomposed::quantize_per_tensor`."""
    storage = _storage(quant_min, quant_max)
    if STORED.get(storage["dtype"]) != dtype:
        raise UnsupportedCallError("the range is not that of the tensor's type")
    return composite(input, scale=[scale], zero_point=[zero_point], **storage)


def to_dequantize(
    composite: Composite,
    input: Tensor,
    scale: float,
    zero_point: int,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """Adapt `quantized_decomposed::dequantize_per_tensor`."""
    if out_dtype not in (None, torch.float32):
        raise UnsupportedCallError("the result must be f32")
    return to_quantize(composite, input, scale, zero_point, quant_min, quant_max, dtype)


def _of_slices(x: Tensor, scales: Sequence[float], axis: int) -> Tensor:
    """Scales of the slices of a tensor along a dimension, in a shape that broadcasts with it."""
    sizes = [-1 if n == axis else 1 for n in range(x.dim())]
    return torch.tensor(list(scales), device=x.device).reshape(sizes)


def _storage(quant_min: int, quant_max: int) -> dict[str, Any]:
    """The attributes for a range of integers."""
    for dtype, (lowest, highest) in LIMITS.items():
        if quant_max == highest and quant_min in (lowest, lowest + 1):
            return {"dtype": dtype, "narrow_range": quant_min != lowest}
    raise UnsupportedCallError(f"the converter has no type for {quant_min} to {quant_max}")
