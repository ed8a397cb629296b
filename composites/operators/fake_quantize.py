"""Fake quantization: numbers are rounded to those that integers stand for, and stay floats.

The functions have the signatures of PyTorch's operators, and their results: the rounded numbers,
and a mask of integers in range. PyTorch's gradient is that of the result where the mask is true,
and 0 elsewhere.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from composites.errors import InvalidCallError
from composites.operators.opmath import opmath_type


def per_tensor(
    self: Tensor, scale: float, zero_point: int, quant_min: int, quant_max: int
) -> tuple[Tensor, Tensor]:
    """`aten::fake_quantize_per_tensor_affine_cachemask`, which divides in f32."""
    inverse = float(np.float32(1) / np.float32(scale))
    integers = torch.round(self.to(opmath_type(self.dtype)) * inverse) + zero_point
    return _rounded(self, integers, float(np.float32(scale)), zero_point, quant_min, quant_max)


def per_tensor_with_tensors(
    self: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    fake_quant_enabled: Tensor,
    quant_min: int,
    quant_max: int,
) -> tuple[Tensor, Tensor]:
    """`aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams`: scale and zero point are
    tensors of one number, and `fake_quant_enabled` is 0 where the tensor stays what it is."""
    scale, zero_point, is_on = scale.reshape(()), zero_point.reshape(()), fake_quant_enabled != 0
    integers = torch.round(self.to(opmath_type(self.dtype)) * scale.reciprocal()) + zero_point
    rounded, mask = _rounded(self, integers, scale, zero_point, quant_min, quant_max)
    is_on = is_on.reshape(())
    return torch.where(is_on, rounded, self), mask | ~is_on


def per_channel(
    self: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> tuple[Tensor, Tensor]:
    """`aten::fake_quantize_per_channel_affine_cachemask`: a zero point of a float type is added
    before numbers are rounded."""
    if not 0 <= axis < self.dim():
        raise InvalidCallError(f"the axis {axis} of channels is not from 0 to {self.dim() - 1}")
    scale, zero_point = along_axis(scale, self, axis), along_axis(zero_point, self, axis)
    scaled = self.to(opmath_type(self.dtype)) * scale.reciprocal()
    is_float = zero_point.is_floating_point()
    integers = torch.round(scaled + zero_point) if is_float else torch.round(scaled) + zero_point
    return _rounded(self, integers, scale, zero_point, quant_min, quant_max)


def along_axis(values: Tensor, tensor: Tensor, axis: int) -> Tensor:
    """A vector that broadcasts along a dimension of a tensor."""
    return values.reshape([-1 if n == axis % tensor.dim() else 1 for n in range(tensor.dim())])


def _rounded(
    self: Tensor, integers: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int
) -> tuple[Tensor, Tensor]:
    is_above = integers >= quant_min  # not NaN, which becomes the least integer
    in_range = torch.where(is_above, integers.clamp(max=quant_max), quant_min)
    rounded = ((in_range - zero_point) * scale).to(self.dtype)
    return rounded, is_above & (integers <= quant_max)
