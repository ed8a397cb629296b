"""Rules of torchvision's operators that read images between pixels: RoI align and deformable
convolutions (torchvision 0.29)."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from lowering.frontends.aten_in_jax.table import rule_of_package


def _corners(positions: Any, size: int) -> list[tuple[Any, Any]]:
    """The pixels on both sides of positions, and their weights: 0 outside of the image."""
    low = jnp.floor(positions)
    after = positions - low
    pixels = low.astype(jnp.int32)
    return [
        (pixel.clip(0, size - 1), jnp.where((pixel >= 0) & (pixel < size), weight, 0))
        for pixel, weight in ((pixels, 1 - after), (pixels + 1, after))
    ]


def _between_pixels(image: Any, before: tuple[Any, ...], y: Any, x: Any) -> Any:
    """Elements of `[…, height, width, channels]` at positions.

    Args:
        before: the indices of the dimensions before the height.
    """
    height, width, _ = image.shape[-3:]
    return sum(
        image[(*before, row, column)] * (row_weight * column_weight)[..., None]
        for row, row_weight in _corners(y, height)
        for column, column_weight in _corners(x, width)
    )


@rule_of_package("torchvision::roi_align")
def _roi_align(dtype: Any, /, image: Any, rois: Any, *options: Any) -> Any:
    image = jnp.moveaxis(image, 1, -1)
    result = _over_samples(lambda samples: samples(image), image.shape, rois, *options)
    return jnp.moveaxis(result, -1, 1)


@rule_of_package("torchvision::_roi_align_backward")
def _roi_align_backward(
    dtype: Any, /, grad: Any, rois: Any, scale: float, rows: int, columns: int, *options: Any
) -> Any:
    many, channels, height, width, ratio, aligned = options
    zeros = jnp.zeros((many, height, width, channels), grad.dtype)
    grad = jnp.moveaxis(grad, 1, -1)
    result = _over_samples(
        lambda samples: jax.vjp(samples, zeros)[1](grad)[0],
        *(zeros.shape, rois, scale, rows, columns, ratio, aligned),
    )
    return jnp.moveaxis(result, -1, 1)


def _over_samples(
    function: Callable[[Callable[[Any], Any]], Any],
    shape: Any,
    rois: Any,
    scale: float,
    rows: int,
    columns: int,
    ratio: int,
    aligned: bool,
) -> Any:
    """The sum of a function of the mean over samples of each bin. Without a ratio, a region has as
    many samples as pixels, and a loop visits the samples of the largest region."""
    _, height, width, channels = shape
    left, top, right, bottom = (rois[:, 1:] * scale - (0.5 if aligned else 0.0)).T
    sizes = jnp.stack([bottom - top, right - left])
    bins = (sizes if aligned else sizes.clip(1)) / jnp.array([[rows], [columns]], rois.dtype)
    counts = jnp.full_like(bins, ratio) if ratio > 0 else jnp.ceil(bins)

    def positions(start: Any, axis: int, number: int, samples: Any, size: int) -> Any:
        """Positions of samples along an axis, for each region and bin, and a mask of the valid."""
        count, extent = counts[axis][:, None, None], bins[axis][:, None, None]
        into = (samples.astype(rois.dtype) + 0.5) * extent / count
        at = start[:, None, None] + jnp.arange(number)[:, None] * extent + into
        is_inside = (samples < count) & (at >= -1) & (at <= size)
        flat = (len(rois), number * len(samples))
        return at.clip(0, size - 1).reshape(flat), is_inside.reshape(flat)

    def samples(along_y: Any, along_x: Any, image: Any) -> Any:
        y, is_row = positions(top, 0, rows, along_y, height)
        x, is_column = positions(left, 1, columns, along_x, width)
        before = (rois[:, 0].astype(jnp.int32)[:, None, None],)
        values = _between_pixels(image, before, y[:, :, None], x[:, None, :])
        counted = jnp.where((is_row[:, :, None] & is_column[:, None, :])[..., None], values, 0)
        binned = counted.reshape(len(rois), rows, len(along_y), columns, len(along_x), channels)
        return binned.sum((2, 4)) / (counts[0] * counts[1]).clip(1)[:, None, None, None]

    if ratio > 0:
        return function(partial(samples, *[jnp.arange(ratio)] * 2))
    many_rows, many_columns = counts.max(1, initial=0).astype(jnp.int32)

    def added(number: Any, total: Any) -> Any:
        indices = number // many_columns, number % many_columns
        return total + function(partial(samples, *(index[None] for index in indices)))

    single = jnp.arange(1)
    total = jax.eval_shape(lambda: function(partial(samples, single, single)))
    return lax.fori_loop(0, many_rows * many_columns, added, jnp.zeros(total.shape, total.dtype))


@rule_of_package("torchvision::deform_conv2d")
def _deformed(
    dtype: Any, /, image: Any, weight: Any, offset: Any, mask: Any, bias: Any, *options: Any
) -> Any:
    *steps, groups, offset_groups, is_masked = options
    down, right, above, before, apart, aside = steps
    many, sizes = len(image), offset.shape[2:]
    outputs, _, rows, columns = weight.shape
    numbers = jnp.indices((rows, columns, *sizes)).reshape(4, rows * columns, *sizes)
    shifts = offset.reshape(many, offset_groups, rows * columns, 2, *sizes)
    y = shifts[:, :, :, 0] + numbers[2] * down - above + numbers[0] * apart
    x = shifts[:, :, :, 1] + numbers[3] * right - before + numbers[1] * aside
    grouped = image.reshape(many, offset_groups, -1, *image.shape[2:])
    outer = jnp.ix_(*map(jnp.arange, (many, offset_groups, 1, 1, 1)))[:2]
    values = _between_pixels(jnp.moveaxis(grouped, 2, -1), outer, y, x)
    if is_masked:
        values = values * mask.reshape(*values.shape[:-1], 1)
    # From `[many, offset group, kernel, height, width, channel]` to the groups of the weight.
    values = jnp.moveaxis(values, -1, 2).reshape(many, groups, -1, rows * columns, *sizes)
    kernels = weight.reshape(groups, outputs // groups, -1, rows * columns)
    product = jnp.einsum("ngckhw,gock->ngohw", values, kernels)
    return product.reshape(many, outputs, *sizes) + bias[:, None, None]


@rule_of_package("torchvision::_deform_conv2d_backward")
def _deformed_backward(dtypes: Any, /, grad: Any, *arguments: Any) -> Any:
    tensors, options = arguments[:5], arguments[5:]
    return jax.vjp(lambda *operands: _deformed(None, *operands, *options), *tensors)[1](grad)
