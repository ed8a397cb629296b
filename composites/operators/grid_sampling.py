"""Sampling of images at the points of a grid (torch.nn.functional.grid_sample).

Each point reads a few rows and columns of the image, and a few planes of a volume. These are the
taps: two along each axis for linear interpolation, one for nearest, four for bicubic. Each tap has
a weight. The result is the sum of weight times pixel over all taps. The gradient of the image
scatters along the same taps. The gradient of the grid uses the derivatives of the weights instead
of the weights.

The coordinate arithmetic follows PyTorch's definition in aten/src/ATen/native/GridSamplerUtils.h.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod
from operator import and_, mul

import torch
from torch import Tensor

from composites.operators.aten_enums import BICUBIC, NEAREST, REFLECTION, ZEROS
from composites.operators.cubic import cubic_slopes, cubic_weights
from composites.operators.opmath import check_same_dtype, opmath_type


@dataclass(frozen=True, slots=True)
class _Sampling:
    """The rule by which coordinates along one axis of an image become taps."""

    size: int
    interpolation_mode: int
    padding_mode: int
    align_corners: bool

    def taps(self, coordinate: Tensor) -> "_Taps":
        """Compute the taps of coordinates from -1 to 1, of shape (N, points)."""
        source, scale = self._unnormalized(coordinate)
        if self.interpolation_mode == BICUBIC:  # padding moves the taps and does not change slopes
            low = source.floor()
            t = source - low
            positions = [self._padded(low + k)[0] for k in (-1, 0, 1, 2)]
            return self._make(positions, cubic_weights(t), [w * scale for w in cubic_slopes(t)])
        source, slope = self._padded(source)
        if self.interpolation_mode == NEAREST:
            weight = torch.ones_like(source)
            return self._make([source.round()], [weight], [torch.zeros_like(source)])
        slope = slope * scale
        low = source.floor()
        t = source - low
        return self._make([low, low + 1], [1 - t, t], [-slope, slope])

    def _make(
        self, positions: Sequence[Tensor], weights: Sequence[Tensor], slopes: Sequence[Tensor]
    ) -> "_Taps":
        position = torch.stack(tuple(positions), -1)
        inside = (position >= 0) & (position <= self.size - 1)
        index = torch.where(inside, position, 0.0).to(torch.int64)
        return _Taps(index, inside, torch.stack(tuple(weights), -1), torch.stack(tuple(slopes), -1))

    def _unnormalized(self, coordinate: Tensor) -> tuple[Tensor, float]:
        """Convert coordinates to pixels, and return the derivative. -1 and 1 are the centres of the
        outermost pixels with align_corners, and their outer edges without."""
        if self.align_corners:
            slope = (self.size - 1) / 2
            return (coordinate + 1) * slope, slope
        return ((coordinate + 1) * self.size - 1) / 2, self.size / 2

    def _padded(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Move pixel coordinates into the image, and return the derivative of this mapping."""
        slope = torch.ones_like(source)
        if self.padding_mode == ZEROS:
            return source, slope
        if self.padding_mode == REFLECTION:
            source, slope = self._reflected(source)
        # Exactly at the border, PyTorch's derivative is zero too.
        within = (source > 0) & (source < self.size - 1)
        source = torch.where(source.isnan(), 0.0, source)  # the documentation: "interpreted as -1"
        return source.clamp(0, self.size - 1), torch.where(within, slope, 0.0)

    def _reflected(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Reflect coordinates as often as needed, at the outermost centres with align_corners, and
        at the edges without."""
        low, span = (0.0, self.size - 1) if self.align_corners else (-0.5, self.size)
        if span == 0:
            return torch.zeros_like(source), torch.zeros_like(source)
        distance = source - low
        sign = torch.where(distance < 0, -1.0, 1.0).to(source.dtype)
        distance = distance.abs()
        flips = (distance / span).floor()
        extra = torch.fmod(distance, span)
        even = torch.remainder(flips, 2) == 0
        return torch.where(even, extra, span - extra) + low, torch.where(even, sign, -sign)


@dataclass(frozen=True, slots=True)
class _Taps:
    """The positions that points read along one axis. All tensors are (N, points, taps)."""

    index: Tensor
    """Position within the axis."""
    inside: Tensor
    """False if the tap lies outside the image and counts as zero."""
    weights: Tensor
    slopes: Tensor
    """Derivative of the weights with respect to the grid's coordinate."""


@dataclass(frozen=True, slots=True)
class _Samples:
    """Taps of all points of a grid along all axes. The last axis is the columns."""

    axes: list[_Taps]
    pixels: Tensor
    """(N * points * … * rows * columns): the index of each pixel in the whole batch."""
    inside: Tensor
    """(N, points, …, rows, columns): False for taps outside the image."""


def grid_sampler_2d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """Sample the image `input` at the points of `grid`. Volumes have a depth before the height.

    The last dimension of `grid` is (x, y) or (x, y, z), with coordinates from -1 to 1.

    Shapes: input (N, C, H, W); grid (N, h, w, 2); the result (N, C, h, w).
    """
    check_same_dtype(input, grid)
    samples = _samples(input, grid, interpolation_mode, padding_mode, align_corners)
    values = _values(input, samples)
    weights = _over_axes(mul, [taps.weights for taps in samples.axes])
    sampled = (values * weights[..., None]).sum(_tap_dims(samples))
    # `sampled` is (N, points, C).
    sampled = sampled.transpose(1, 2).reshape(input.size(0), input.size(1), *grid.shape[1:-1])
    return sampled.to(input.dtype)


def grid_sampler_2d_backward(
    grad_output: Tensor,
    input: Tensor,
    grid: Tensor,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    output_mask: Sequence[bool],
) -> tuple[Tensor, Tensor]:
    """Gradients of the image and of the grid. The first is zero if `output_mask[0]` is false.

    Shapes: grad_output (N, C, h, w); input and its gradient (N, C, H, W); grid and its gradient
    (N, h, w, 2).
    """
    check_same_dtype(input, grid, grad_output)
    samples = _samples(input, grid, interpolation_mode, padding_mode, align_corners)
    all_weights = [taps.weights for taps in samples.axes]
    # (N, points, 1, 1, C)
    grad = grad_output.to(opmath_type(input.dtype)).flatten(2).transpose(1, 2)
    grad = grad[(slice(None), slice(None), *[None] * len(all_weights))]

    grad_input = torch.zeros_like(input)
    if output_mask[0]:
        weights = _over_axes(mul, all_weights)
        shares = torch.where(samples.inside, weights, 0.0)[..., None] * grad
        grad_input = _scattered(shares, input, samples).to(input.dtype)

    along = (_values(input, samples) * grad).sum(-1)
    gradients = []
    for number, taps in reversed([*enumerate(samples.axes)]):
        factors = [*all_weights[:number], taps.slopes, *all_weights[number + 1 :]]
        gradients.append((along * _over_axes(mul, factors)).sum(_tap_dims(samples)))
    grad_grid = torch.stack(tuple(gradients), -1).reshape(grid.shape)
    return grad_input, grad_grid.to(grid.dtype)


def _samples(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> _Samples:
    batch, _, *sizes = input.shape
    points = grid.to(opmath_type(grid.dtype)).flatten(1, -2)
    modes = (interpolation_mode, padding_mode, align_corners)
    axes = [
        _Sampling(size, *modes).taps(points[..., number])
        for number, size in enumerate(reversed(sizes))
    ][::-1]
    pixels = torch.arange(batch, device=grid.device).reshape(batch, 1, *[1] * len(sizes))
    for number, (size, taps) in enumerate(zip(sizes, axes, strict=True)):
        pixels = pixels * size + _along(taps.index, number, len(sizes))
    inside = _over_axes(and_, [taps.inside for taps in axes])
    return _Samples(axes, pixels.flatten(), inside)


def _along(taps: Tensor, axis: int, axes: int) -> Tensor:
    """Reshape taps (N, points, taps) of an axis to one dimension per axis after the points."""
    return taps[(..., *[None] * axis, slice(None), *[None] * (axes - 1 - axis))]


def _over_axes(combine: Callable[[Tensor, Tensor], Tensor], taps: Sequence[Tensor]) -> Tensor:
    """Combine the taps of all axes, (N, points, taps), into (N, points, …, rows, columns)."""
    return reduce(combine, [_along(tensor, axis, len(taps)) for axis, tensor in enumerate(taps)])


def _tap_dims(samples: _Samples) -> tuple[int, ...]:
    return tuple(range(2, 2 + len(samples.axes)))


def _values(input: Tensor, samples: _Samples) -> Tensor:
    """Read the values at the taps, (N, points, …, rows, columns, C), with all channels of a pixel
    at once."""
    channels = input.size(1)
    pixels = input.to(opmath_type(input.dtype)).permute(0, *_tap_dims(samples), 1)
    pixels = pixels.reshape(prod(pixels.shape[:-1]), channels)
    values = pixels.index_select(0, samples.pixels).reshape(*samples.inside.shape, channels)
    return torch.where(samples.inside[..., None], values, 0.0)


def _scattered(shares: Tensor, input: Tensor, samples: _Samples) -> Tensor:
    """Add the share of each tap to an image of zeros with the shape of `input`."""
    batch, channels, *sizes = input.shape
    shape = (batch * prod(sizes), channels)
    pixels = torch.zeros(shape, dtype=shares.dtype, device=shares.device)
    pixels = pixels.index_add(0, samples.pixels, shares.flatten(0, -2))
    return pixels.reshape(batch, *sizes, channels).movedim(-1, 1)
