"""Resampling of images, one axis at a time, without gathers of single elements.

If an axis grows by a whole factor, the output elements of one phase read the same neighbours with
the same weights: each phase is one weighted sum of the whole image, and the phases are interleaved.
Otherwise columns are resampled by a product with the matrix of weights, because rows of an image
are contiguous, and rows by their few taps. (In such a product, a non-finite number spreads along
its row.) Sums are in f32, even if the image is bf16.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array, lax

from composites.operators.cubic import cubic_weights
from composites.operators.resampling import Taps

PRODUCT = 256
"""The largest number of columns for which the product is faster than taps."""

ROWS, COLUMNS = 2, 3


@dataclass(frozen=True, slots=True)
class _Axis:
    """One axis of an image: the numbers of input and output elements."""

    dim: int
    inputs: int
    outputs: int
    align_corners: bool = False

    @property
    def factor(self) -> int | None:
        """The number of output elements per input element; None if it differs between elements."""
        if self.align_corners or self.outputs % self.inputs:
            return None
        return self.outputs // self.inputs

    def source(self, lowest: int | None = None) -> tuple[Array, Array]:
        """Return the input element before each output element's centre, and the distance from it.
        Coordinates are integers, so that positions in a large image are not rounded, and i32 if
        possible, because LiteRT divides no wider integers."""
        largest = 2 * (self.outputs + 1) * max(self.inputs, 2)
        outputs = jnp.arange(self.outputs, dtype=jnp.int32 if largest < 2**31 else jnp.int64)
        if self.align_corners:
            above, below = outputs * (self.inputs - 1), max(1, self.outputs - 1)
        else:
            above, below = (2 * outputs + 1) * self.inputs - self.outputs, 2 * self.outputs
        if lowest is not None:
            above = jnp.maximum(above, lowest * below)
        low = above // below
        return low, (above - low * below).astype(jnp.float32) / below

    def bilinear(self) -> Taps:
        """Return the two taps of each output element."""
        low, t = self.source(lowest=0)
        return self._taps((low, low + 1), (1 - t, t))

    def bicubic(self) -> Taps:
        """Return the four taps of each output element."""
        low, t = self.source()
        return self._taps((low - 1, low, low + 1, low + 2), cubic_weights(t))

    def _taps(self, positions: Sequence[Array], weights: tuple[Array, ...]) -> Taps:
        inside = (jnp.clip(p, 0, self.inputs - 1).astype(jnp.int32) for p in positions)
        return Taps(self.inputs, tuple(inside), weights)


def _product(equation: str, image: Array, matrix: Array) -> Array:
    """Multiply an image and weights in f32. The precision keeps a GPU from rounding both to TF32,
    which the gathers of the stock lowering do not do."""
    return jnp.einsum(equation, image, matrix, precision=lax.Precision.HIGHEST)


def upsample_nearest2d(
    self: Array,
    output_size: Sequence[int],
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Array:
    """`aten::upsample_nearest2d` by whole factors, which repeats each element."""
    batch, channels, height, width = self.shape
    rows, columns = output_size[0] // height, output_size[1] // width
    repeated = jnp.broadcast_to(
        self[:, :, :, None, :, None], (batch, channels, height, rows, width, columns)
    )
    return repeated.reshape(batch, channels, *output_size)


def upsample_bilinear2d(
    self: Array,
    output_size: Sequence[int],
    align_corners: bool,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Array:
    """`aten::upsample_bilinear2d`."""
    image = self.astype(jnp.float32)
    for axis in reversed(_axes(self.shape, output_size, align_corners)):
        if axis.factor is not None:
            image = _phases(image, axis)
        elif axis.dim == COLUMNS and axis.inputs <= PRODUCT:
            image = _product("nchw,xw->nchx", image, axis.bilinear().matrix())
        else:
            image = axis.bilinear().gathered(image, axis.dim)
    return image.astype(self.dtype)


def upsample_bilinear2d_backward(
    grad_output: Array,
    output_size: Sequence[int],
    input_size: Sequence[int],
    align_corners: bool,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Array:
    """The gradient of `upsample_bilinear2d` by whole factors."""
    rows, columns = _axes(input_size, output_size, align_corners)
    grad = _phases_backward(grad_output.astype(jnp.float32), rows)
    if columns.inputs <= PRODUCT:
        grad = _product("nchx,xw->nchw", grad, columns.bilinear().matrix())
    else:
        grad = _phases_backward(grad, columns)
    return grad.astype(grad_output.dtype)


def upsample_bicubic2d(
    self: Array,
    output_size: Sequence[int],
    align_corners: bool,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Array:
    """`aten::upsample_bicubic2d`."""
    rows, columns = _axes(self.shape, output_size, align_corners)
    matrix = columns.bicubic().matrix()
    image = _product("nchw,xw->nchx", self.astype(jnp.float32), matrix)
    return rows.bicubic().gathered(image, rows.dim).astype(self.dtype)


def _axes(
    input_size: Sequence[int], output_size: Sequence[int], align_corners: bool
) -> tuple[_Axis, _Axis]:
    (height, width), (rows, columns) = input_size[-2:], output_size
    return (
        _Axis(ROWS, height, rows, align_corners),
        _Axis(COLUMNS, width, columns, align_corners),
    )


def _weights(factor: int) -> Iterator[tuple[bool, float]]:
    """Yield for each phase whether it reads the element before its own element, or else the element
    after it, and the weight of its own element."""
    for phase in range(factor):
        source = (phase + 0.5) / factor - 0.5
        yield source < 0, 1 - abs(source)


def _phases(image: Array, axis: _Axis) -> Array:
    """Resample by a whole factor. Beyond the border, the outermost element is repeated."""
    assert axis.factor is not None
    dim = axis.dim
    first, last = _part(image, dim, 0, 1), _part(image, dim, axis.inputs - 1, axis.inputs)
    before = jnp.concatenate([first, _part(image, dim, 0, axis.inputs - 1)], dim)
    after = jnp.concatenate([_part(image, dim, 1, axis.inputs), last], dim)
    phases = [
        image if own == 1 else image * own + (before if reads_before else after) * (1 - own)
        for reads_before, own in _weights(axis.factor)
    ]
    shape = (*image.shape[:dim], axis.outputs, *image.shape[dim + 1 :])
    return jnp.stack(phases, dim + 1).reshape(shape)


def _phases_backward(grad: Array, axis: _Axis) -> Array:
    """The gradient of `_phases`, a linear function."""
    shape = (*grad.shape[: axis.dim], axis.inputs, *grad.shape[axis.dim + 1 :])
    transposed = jax.linear_transpose(
        partial(_phases, axis=axis), jax.ShapeDtypeStruct(shape, grad.dtype)
    )
    (gradient,) = transposed(grad)
    return gradient


def _part(image: Array, dim: int, start: int, end: int) -> Array:
    return lax.slice_in_dim(image, start, end, axis=dim)
