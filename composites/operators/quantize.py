"""Quantization and dequantization: the operators `quantized_decomposed::…` of exported programs
after `convert_pt2e`.

The functions take the operators' arguments; dequantization does not read the range and the type of
the integers. A scale or zero point is an attribute of the composite if it is a number, and an
operand if it is a tensor.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from composites import torch_internals
from composites.operators.fake_quantize import along_axis


def quantize_per_tensor(
    input: Tensor,
    scale: float,
    zero_point: int,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
) -> Tensor:
    """Quantize to integers of `dtype`, with arithmetic in f32."""
    return _integers(input, 1.0 / scale, zero_point, quant_min, quant_max, dtype)


def quantize_per_tensor_with_tensors(
    input: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
) -> Tensor:
    """Quantize with a scale and a zero point that are tensors of one number."""
    inverse = scale.reshape(()).reciprocal().to(torch.float32)
    return _integers(input, inverse, zero_point.reshape(()), quant_min, quant_max, dtype)


def quantize_per_channel(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
) -> Tensor:
    """Quantize with a scale and a zero point for each index along a dimension."""
    inverse = along_axis(scales, input, axis).reciprocal()
    zeros = along_axis(zero_points, input, axis)
    return _integers(input, inverse, zeros, quant_min, quant_max, dtype)


def dequantize_per_tensor(
    input: Tensor, scale: float, zero_point: int, *_: Any, out_dtype: torch.dtype | None = None
) -> Tensor:
    """Dequantize integers to `out_dtype`, which is f32 by default."""
    return (input.to(out_dtype or torch.float32) - zero_point) * scale


def dequantize_per_tensor_with_tensors(
    input: Tensor, scale: Tensor, zero_point: Tensor, *_: Any, out_dtype: torch.dtype | None = None
) -> Tensor:
    """Dequantize with a scale and a zero point that are tensors of one number."""
    shifted = input.to(out_dtype or torch.float32) - zero_point.reshape(())
    return shifted * scale.reshape(()).to(shifted.dtype)


def dequantize_per_channel(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    axis: int,
    *_: Any,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """Dequantize with a scale and a zero point for each index along a dimension."""
    integers = input.to(torch.int32)
    if zero_points is not None:
        integers = integers - along_axis(zero_points, input, axis)
    return (integers * along_axis(scales, input, axis)).to(out_dtype or torch.float32)


def choose_qparams(
    input: Tensor, quant_min: int, quant_max: int, eps: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Choose the scale, f64, and the zero point, i64, with which a tensor fits a range."""
    least = input.min().clamp(max=0)
    scale = ((input.max().clamp(min=0) - least) / (quant_max - quant_min)).clamp(min=eps)
    zero_point = (quant_min - torch.round(least / scale)).clamp(quant_min, quant_max)
    return scale.to(torch.float64).reshape(1), zero_point.to(torch.int64).reshape(1)


def choose_qparams_symmetric(
    input: Tensor, qmin: int, qmax: int, eps: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Choose the scale with which a tensor fits a range around zero, whose zero point is fixed."""
    largest = torch.maximum(input.max(), -input.min()).clamp(min=0)
    scale = (largest / ((qmax - qmin) / 2)).clamp(min=eps).to(torch.float64).reshape(1)
    zero_point = 128 if dtype == torch.uint8 else 0
    return scale, torch.full_like(scale, zero_point, dtype=torch.int64)


def _integers(
    input: Tensor, inverse: Any, zero_point: Any, quant_min: int, quant_max: int, dtype: torch.dtype
) -> Tensor:
    rounded = torch.round(input.to(torch.float32) * inverse) + zero_point
    integers: Tensor = rounded.clamp(quant_min, quant_max).to(dtype)
    return integers


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Return the functions by overload."""
    torch_internals.schemas_of("quantized_decomposed::quantize_per_tensor")  # registers them
    operators = torch.ops.quantized_decomposed
    return {
        operators.quantize_per_tensor.default: quantize_per_tensor,
        operators.quantize_per_tensor.tensor: quantize_per_tensor_with_tensors,
        operators.quantize_per_channel.default: quantize_per_channel,
        operators.dequantize_per_tensor.default: dequantize_per_tensor,
        operators.dequantize_per_tensor.tensor: dequantize_per_tensor_with_tensors,
        operators.dequantize_per_channel.default: dequantize_per_channel,
        operators.choose_qparams.tensor: choose_qparams,
        operators.choose_qparams_symmetric.tensor: choose_qparams_symmetric,
    }
