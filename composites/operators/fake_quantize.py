"""Fake quantization: floats are rounded to the numbers that quantized integers represent.

The functions have the signatures and results of PyTorch's operators: the rounded numbers, and a
mask of integers that are in range. PyTorch's gradient is the gradient of the result where the mask
is True, and 0 elsewhere.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from composites.errors import InvalidCallError, UnsupportedCallError
from composites.operators.opmath import opmath_type

aten = torch.ops.aten


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
    tensors of one number, and the tensor is returned unchanged if `fake_quant_enabled` is 0."""
    scale, zero_point, is_on = scale.reshape(()), zero_point.reshape(()), fake_quant_enabled != 0
    integers = torch.round(self.to(opmath_type(self.dtype)) * scale.reciprocal()) + zero_point
    rounded, mask = _rounded(self, integers, scale, zero_point, quant_min, quant_max)
    is_on = is_on.reshape(())
    return torch.where(is_on, rounded, self), mask | ~is_on


def per_channel(
    self: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> tuple[Tensor, Tensor]:
    """`aten::fake_quantize_per_channel_affine_cachemask`: a zero point of a float type is added
    before rounding."""
    if not 0 <= axis < self.dim():
        raise InvalidCallError(f"the axis {axis} of channels is not from 0 to {self.dim() - 1}")
    scale, zero_point = along_axis(scale, self, axis), along_axis(zero_point, self, axis)
    scaled = self.to(opmath_type(self.dtype)) * scale.reciprocal()
    is_float = zero_point.is_floating_point()
    integers = torch.round(scaled + zero_point) if is_float else torch.round(scaled) + zero_point
    return _rounded(self, integers, scale, zero_point, quant_min, quant_max)


def with_moving_averages(
    self: Tensor,
    observer_on: Tensor,
    fake_quant_on: Tensor,
    running_min: Tensor,
    running_max: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    averaging_const: float,
    quant_min: int,
    quant_max: int,
    ch_axis: int,
    per_row_fake_quant: bool = False,
    symmetric_quant: bool = False,
) -> tuple[Tensor, ...]:
    """`aten::_fused_moving_avg_obs_fq_helper_functional`: scale and zero point follow from moving
    averages of the least and the greatest number, as in training with PT2E.

    Raises:
        UnsupportedCallError: the averages per channel have no elements before the first call.
    """
    if per_row_fake_quant and running_min.numel() != self.shape[ch_axis]:
        raise UnsupportedCallError("call the model once in eager mode, which sizes its observers")
    dims = [n for n in range(self.dim()) if not per_row_fake_quant or n != ch_axis]
    observes, quantizes = observer_on.reshape(()) != 0, fake_quant_on.reshape(()) != 0

    def averaged(before: Tensor, number: Tensor) -> Tensor:
        number = number.to(before.dtype).reshape(before.shape)
        mean = before + averaging_const * (number - before)
        return torch.where(observes, torch.where(before.isinf(), number, mean), before)

    low, high = averaged(running_min, self.amin(dims)), averaged(running_max, self.amax(dims))
    chosen = _scale_and_zero_point(low, high, quant_min, quant_max, symmetric_quant)
    scale, zero_point = (
        torch.where(quantizes, new.to(old.dtype).reshape(old.shape), old)
        for new, old in zip(chosen, (scale, zero_point), strict=True)
    )
    bounds = (quant_min, quant_max)
    if per_row_fake_quant:
        rounded, mask = aten.fake_quantize_per_channel_affine_cachemask(
            self, scale, zero_point, ch_axis, *bounds
        )
        rounded, mask = torch.where(quantizes, rounded, self), mask | ~quantizes
    else:
        rounded, mask = aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
            self, scale, zero_point, fake_quant_on, *bounds
        )
    return rounded, mask, low, high, scale, zero_point


def _scale_and_zero_point(
    low: Tensor, high: Tensor, quant_min: int, quant_max: int, is_symmetric: bool
) -> tuple[Tensor, Tensor]:
    """Compute the scale and zero point for numbers between two bounds, in f64 as PyTorch does."""
    steps = quant_max - quant_min
    is_around_zero = (low < 0) & (high > 0)
    if is_symmetric:
        half = steps // 2
        widest = torch.maximum((low / (half + 1)).abs(), (high / half).abs())
        low = torch.where(is_around_zero, widest * -(half + 1), low)
        high = torch.where(is_around_zero, widest * half, high)
    low, high = low.clamp(max=0).double(), high.clamp(min=0).double()
    scale = (high - low) / steps
    has_inverse = scale.float().reciprocal().isfinite()
    scale = torch.where(has_inverse, scale, 0.1)
    wider = (_LEAST_SCALE / scale).clamp(min=1)
    scale, low, high = scale * wider, low * wider, high * wider
    below, above = low / scale, high / scale
    is_lower = abs(quant_min) - below.abs() < abs(quant_max) - above.abs()
    zero_point = torch.where(is_lower, quant_min - below, quant_max - above)
    if is_symmetric:
        zero_point = torch.where(is_around_zero, (quant_min + quant_max) / 2, zero_point)
    return scale, zero_point.clamp(quant_min, quant_max).round()


_LEAST_SCALE = float(np.float32(6.1e-5))


def along_axis(values: Tensor, tensor: Tensor, axis: int) -> Tensor:
    """Reshape a vector so that it broadcasts along a dimension of a tensor."""
    return values.reshape([-1 if n == axis % tensor.dim() else 1 for n in range(tensor.dim())])


def _rounded(
    self: Tensor, integers: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int
) -> tuple[Tensor, Tensor]:
    is_above = integers >= quant_min  # False for NaN, which becomes the least integer
    in_range = torch.where(is_above, integers.clamp(max=quant_max), quant_min)
    rounded = ((in_range - zero_point) * scale).to(self.dtype)
    return rounded, is_above & (integers <= quant_max)
