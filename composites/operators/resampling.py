"""Resampling of images, one axis at a time.

Along an axis, every output element is a weighted sum of a few input elements, its taps. The forward
gathers the taps. The backward is the transposed map, computed as a product with the matrix of all
weights: accelerators are fast at matrix products and slow at scatters. (So a non-finite gradient
spreads along its row and column.) If nearest neighbours only repeat elements, the backward adds the
repetitions instead.

The decompositions are in JAX, because no operator of PyTorch sets the precision of a product. A GPU
would round both factors to TF32, but the gathers and scatters of PyTorch do not round.

The positions of the taps follow PyTorch's definition in aten/src/ATen/native/UpSample.h. With
`align_corners`, the centres of the first elements coincide, as do those of the last elements.
Without it, the outer edges coincide.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from types import ModuleType
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from composites.operators.cubic import cubic_weights

_ROWS, _COLUMNS = 2, 3
"""Dimensions of an image."""


@dataclass(frozen=True, slots=True)
class Taps:
    """The positions that each output element reads along an axis, and their weights."""

    size: int
    """The number of input elements."""
    positions: tuple[Array, ...]
    """One array (output) for each tap, of integers or of whole floating-point numbers, which are
    valid positions of the axis."""
    weights: tuple[Array, ...]
    """One array (output) for each tap."""

    def matrix(self) -> Array:
        """Return the weights as a matrix (output, input)."""
        inputs = jnp.arange(self.size, dtype=self.positions[0].dtype)
        terms = (
            jnp.where(position[:, None] == inputs, weight[:, None], 0.0)
            for position, weight in zip(self.positions, self.weights, strict=True)
        )
        return reduce(add, terms)

    def gathered(self, image: Array, dim: int) -> Array:
        """Resample an image along `dim`."""
        shape = (-1,) + (1,) * (image.ndim - 1 - dim)
        terms = (
            jnp.take(image, position.astype(jnp.int32), axis=dim, mode="clip")
            * weight.reshape(shape)
            for position, weight in zip(self.positions, self.weights, strict=True)
        )
        return reduce(add, terms)


@dataclass(frozen=True, slots=True)
class _Axis:
    """Sizes along one axis, and the user's scale factor, if any."""

    input_size: int
    output_size: int
    scale: float | None

    def ratio(self, *, align_corners: bool = False) -> float:
        """The number of input elements per output element."""
        if align_corners:
            return (self.input_size - 1) / (self.output_size - 1) if self.output_size > 1 else 0.0
        if self.scale is not None and self.scale > 0:
            return 1 / self.scale
        return self.input_size / self.output_size

    def nearest(self, arrays: ModuleType = jnp) -> Any:
        """The position that each output element reads in nearest-neighbour resampling, in f32.

        Args:
            arrays: `jax.numpy`, or `numpy` for concrete positions.
        """
        # PyTorch computes these positions in f32 for every dtype of the image. It ignores the scale
        # factor for equal sizes and for twice the size.
        ratio = {1.0: 1.0, 2.0: 0.5}.get(self.output_size / self.input_size, self.ratio())
        outputs = arrays.arange(self.output_size, dtype=arrays.float32)
        return arrays.minimum(arrays.floor(outputs * arrays.float32(ratio)), self.input_size - 1)

    @property
    def repeats(self) -> int | None:
        """The number of neighbouring output elements that read each input element in `nearest`;
        None if it differs between input elements."""
        times, rest = divmod(self.output_size, self.input_size)
        if rest or not np.array_equal(self.nearest(np), np.arange(self.output_size) // times):
            return None
        return times


def upsample_nearest2d_backward(
    grad_output: Array,
    output_size: Sequence[int],
    input_size: Sequence[int],
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Array:
    """Gradient of nearest-neighbour resampling with respect to its input.

    Output element i reads input element floor(i * ratio). Each input element gets the sum of the
    gradients of the output elements that read it.

    Shapes: grad_output (N, C, *output_size); the result is `input_size`, (N, C, H, W).
    """
    axes = _axes(output_size, input_size, scales_h, scales_w)
    rows, columns = (axis.repeats for axis in axes)
    if rows is not None and columns is not None:
        batch, channels, height, width = input_size
        shape = (batch, channels, height, rows, width, columns)
        grad = grad_output.astype(_opmath(grad_output)).reshape(shape).sum((3, 5))
        return grad.astype(grad_output.dtype)
    return _transposed(grad_output, [_nearest(axis, grad_output) for axis in axes])


def upsample_bilinear2d_backward(
    grad_output: Array,
    output_size: Sequence[int],
    input_size: Sequence[int],
    align_corners: bool,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Array:
    """Gradient of bilinear resampling with respect to its input.

    Shapes: grad_output (N, C, *output_size); the result is `input_size`, (N, C, H, W).
    """
    axes = _axes(output_size, input_size, scales_h, scales_w)
    return _transposed(grad_output, [_linear(axis, grad_output, align_corners) for axis in axes])


def upsample_bicubic2d(
    self: Array,
    output_size: Sequence[int],
    align_corners: bool,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Array:
    """Bicubic resampling. Beyond the border, the outermost element is repeated.

    Shapes: self (N, C, H, W); the result (N, C, *output_size).
    """
    height, width = _axes(output_size, self.shape, scales_h, scales_w)
    image = self.astype(_opmath(self))
    image = _cubic(width, self, align_corners).gathered(image, _COLUMNS)
    return _cubic(height, self, align_corners).gathered(image, _ROWS).astype(self.dtype)


def upsample_bicubic2d_backward(
    grad_output: Array,
    output_size: Sequence[int],
    input_size: Sequence[int],
    align_corners: bool,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Array:
    """Gradient of bicubic resampling with respect to its input.

    Shapes: grad_output (N, C, *output_size); the result is `input_size`, (N, C, H, W).
    """
    axes = _axes(output_size, input_size, scales_h, scales_w)
    if all(axis.input_size == axis.output_size for axis in axes):
        # If the sizes are equal, PyTorch's backward copies the gradient and ignores the scale
        # factor, which its forward on the CPU does use.
        return grad_output
    return _transposed(grad_output, [_cubic(axis, grad_output, align_corners) for axis in axes])


def _axes(
    output_size: Sequence[int],
    input_size: Sequence[int],
    scales_h: float | None,
    scales_w: float | None,
) -> tuple[_Axis, _Axis]:
    (height, width), (input_height, input_width) = output_size, input_size[-2:]
    return _Axis(input_height, height, scales_h), _Axis(input_width, width, scales_w)


def _transposed(grad_output: Array, taps: Sequence[Taps]) -> Array:
    grad = grad_output.astype(_opmath(grad_output))
    for axis in taps:  # rows, then columns: each product moves dimension 2 to the end
        grad = jnp.tensordot(grad, axis.matrix(), ((2,), (0,)), precision=lax.Precision.HIGHEST)
    return grad.astype(grad_output.dtype)


def _nearest(axis: _Axis, like: Array) -> Taps:
    position = axis.nearest().astype(_opmath(like))
    return Taps(axis.input_size, (position,), (jnp.ones_like(position),))


def _linear(axis: _Axis, like: Array, align_corners: bool) -> Taps:
    source = jnp.maximum(_source(axis, like, align_corners), 0)
    if axis.input_size == axis.output_size:  # PyTorch ignores the scale factor
        source = _outputs(axis, like)
    last = axis.input_size - 1
    low = jnp.minimum(jnp.floor(source), last)
    t = jnp.clip(source - low, 0, 1)
    return Taps(axis.input_size, (low, jnp.minimum(low + 1, last)), (1 - t, t))


def _cubic(axis: _Axis, like: Array, align_corners: bool) -> Taps:
    source = _source(axis, like, align_corners)
    last = axis.input_size - 1
    low = jnp.minimum(jnp.floor(source), last)
    t = jnp.clip(source - low, 0, 1)
    positions = tuple(jnp.clip(low + k, 0, last) for k in (-1, 0, 1, 2))
    return Taps(axis.input_size, positions, cubic_weights(t))


def _source(axis: _Axis, like: Array, align_corners: bool) -> Array:
    """The input coordinate of each output element's centre."""
    ratio = axis.ratio(align_corners=align_corners)
    outputs = _outputs(axis, like)
    return outputs * ratio if align_corners else (outputs + 0.5) * ratio - 0.5


def _outputs(axis: _Axis, like: Array) -> Array:
    return jnp.arange(axis.output_size, dtype=_opmath(like))


def _opmath(image: Array) -> Any:
    """The type in which PyTorch's kernels compute: f32 for f16 and bf16."""
    return jnp.promote_types(image.dtype, jnp.float32)
