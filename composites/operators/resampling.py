"""Resampling of images, one axis at a time.

Along an axis, every output element is a weighted sum of a few input elements, its taps. The forward
gathers them. The backward is the transposed map, computed as a product with the matrix of all
weights: accelerators are fast at matrix products and slow at scatters. (A gradient that is not
finite therefore spreads along its row and column.)

The positions of the taps follow PyTorch's definition in aten/src/ATen/native/UpSample.h. With
`align_corners`, the centres of the first elements coincide, as do those of the last elements.
Without it, the outer edges coincide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from composites.operators.cubic import cubic_weights
from composites.operators.opmath import opmath_type


@dataclass(frozen=True, slots=True)
class _Axis:
    """Sizes along one axis, and the scale factor if the user gave one."""

    input_size: int
    output_size: int
    scale: float | None

    def ratio(self, *, align_corners: bool = False) -> float:
        """Number of input elements for each output element."""
        if align_corners:
            return (self.input_size - 1) / (self.output_size - 1) if self.output_size > 1 else 0.0
        if self.scale is not None and self.scale > 0:
            return 1 / self.scale
        return self.input_size / self.output_size


@dataclass(frozen=True, slots=True)
class _Taps:
    """Positions that each output element reads along an axis of `size` elements, and their
    weights."""

    size: int
    positions: tuple[Tensor, ...]
    """One tensor (output) for each tap; positions lie within the axis."""
    weights: tuple[Tensor, ...]
    """One tensor (output) for each tap."""

    def matrix(self) -> Tensor:
        """The weights as a matrix (output, input)."""
        first = self.weights[0]
        inputs = torch.arange(self.size, dtype=first.dtype, device=first.device)
        terms = [
            torch.where(position[:, None] == inputs, weight[:, None], 0.0)
            for position, weight in zip(self.positions, self.weights, strict=True)
        ]
        return _sum(terms)

    def gather(self, image: Tensor, dim: int) -> Tensor:
        """Resample `image` along `dim`, which must be negative."""
        shape = (-1,) + (1,) * (-dim - 1)
        terms = [
            image.index_select(dim, position.to(torch.int64)) * weight.reshape(shape)
            for position, weight in zip(self.positions, self.weights, strict=True)
        ]
        return _sum(terms)


def upsample_nearest2d_backward(
    grad_output: Tensor,
    output_size: Sequence[int],
    input_size: Sequence[int],
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Tensor:
    """Gradient of nearest-neighbour resampling with respect to its input.

    Output element i reads input element floor(i * ratio). Each input element gets the sum of the
    gradients of the output elements that read it.

    Shapes: grad_output (N, C, *output_size); the result is `input_size`, (N, C, H, W).
    """
    axes = _axes(output_size, input_size, scales_h, scales_w)
    return _transposed(grad_output, [_nearest(axis, grad_output) for axis in axes])


def upsample_bilinear2d_backward(
    grad_output: Tensor,
    output_size: Sequence[int],
    input_size: Sequence[int],
    align_corners: bool,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Tensor:
    """Gradient of bilinear resampling with respect to its input.

    Shapes: grad_output (N, C, *output_size); the result is `input_size`, (N, C, H, W).
    """
    axes = _axes(output_size, input_size, scales_h, scales_w)
    return _transposed(grad_output, [_linear(axis, grad_output, align_corners) for axis in axes])


def upsample_bicubic2d(
    self: Tensor,
    output_size: Sequence[int],
    align_corners: bool,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Tensor:
    """Bicubic resampling. Beyond the border, the outermost element is repeated.

    Shapes: self (N, C, H, W); the result (N, C, *output_size).
    """
    height, width = _axes(output_size, self.shape, scales_h, scales_w)
    image = self.to(opmath_type(self.dtype))
    image = _cubic(width, self, align_corners).gather(image, dim=-1)
    return _cubic(height, self, align_corners).gather(image, dim=-2).to(self.dtype)


def upsample_bicubic2d_backward(
    grad_output: Tensor,
    output_size: Sequence[int],
    input_size: Sequence[int],
    align_corners: bool,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Tensor:
    """Gradient of bicubic resampling with respect to its input.

    Shapes: grad_output (N, C, *output_size); the result is `input_size`, (N, C, H, W).
    """
    axes = _axes(output_size, input_size, scales_h, scales_w)
    if all(axis.input_size == axis.output_size for axis in axes):
        # PyTorch's backward copies the gradient if the sizes are equal, whatever scale was given.
        # Its forward on the CPU does use the scale.
        return grad_output.clone()
    return _transposed(grad_output, [_cubic(axis, grad_output, align_corners) for axis in axes])


def _axes(
    output_size: Sequence[int],
    input_size: Sequence[int],
    scales_h: float | None,
    scales_w: float | None,
) -> tuple[_Axis, _Axis]:
    (height, width), (input_height, input_width) = output_size, input_size[-2:]
    return _Axis(input_height, height, scales_h), _Axis(input_width, width, scales_w)


def _transposed(grad_output: Tensor, taps: Sequence[_Taps]) -> Tensor:
    grad = grad_output.to(opmath_type(grad_output.dtype))
    for axis in taps:  # rows, then columns: each product moves dimension 2 to the end
        grad = torch.tensordot(grad, axis.matrix(), dims=([2], [0]))
    return grad.to(grad_output.dtype)


def _nearest(axis: _Axis, like: Tensor) -> _Taps:
    # PyTorch computes these positions in f32 for every dtype of the image. For equal sizes and for
    # twice the size it ignores the given scale.
    ratio = {1.0: 1.0, 2.0: 0.5}.get(axis.output_size / axis.input_size, axis.ratio())
    outputs = torch.arange(axis.output_size, dtype=torch.float32, device=like.device)
    position = (outputs * ratio).floor().clamp(max=axis.input_size - 1)
    position = position.to(opmath_type(like.dtype))
    return _Taps(axis.input_size, (position,), (torch.ones_like(position),))


def _linear(axis: _Axis, like: Tensor, align_corners: bool) -> _Taps:
    source = _source(axis, like, align_corners).clamp(min=0)
    if axis.input_size == axis.output_size:  # PyTorch ignores the given scale
        source = _outputs(axis, like)
    low = source.floor().clamp(max=axis.input_size - 1)
    t = (source - low).clamp(0, 1)
    return _Taps(axis.input_size, (low, (low + 1).clamp(max=axis.input_size - 1)), (1 - t, t))


def _cubic(axis: _Axis, like: Tensor, align_corners: bool) -> _Taps:
    source = _source(axis, like, align_corners)
    low = source.floor().clamp(max=axis.input_size - 1)
    t = (source - low).clamp(0, 1)
    positions = tuple((low + k).clamp(0, axis.input_size - 1) for k in (-1, 0, 1, 2))
    return _Taps(axis.input_size, positions, cubic_weights(t))


def _source(axis: _Axis, like: Tensor, align_corners: bool) -> Tensor:
    """The input coordinate of each output element's centre."""
    ratio = axis.ratio(align_corners=align_corners)
    outputs = _outputs(axis, like)
    return outputs * ratio if align_corners else (outputs + 0.5) * ratio - 0.5


def _outputs(axis: _Axis, like: Tensor) -> Tensor:
    dtype = opmath_type(like.dtype)
    return torch.arange(axis.output_size, dtype=dtype, device=like.device)


def _sum(terms: Sequence[Tensor]) -> Tensor:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total
