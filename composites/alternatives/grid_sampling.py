"""Bilinear sampling of images at the points of a grid, one corner at a time.

The values of one corner are read and added in one pass over the result, so no tensor holds the
values of all four corners.
"""

import jax.numpy as jnp
from jax import Array, lax

from composites.operators.aten_enums import REFLECTION, ZEROS


def grid_sampler_2d(
    input: Array, grid: Array, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Array:
    """`aten::grid_sampler_2d` with bilinear interpolation."""
    batch, channels, height, width = input.shape
    points = grid.astype(jnp.float32).reshape(batch, -1, 2)
    pixels = input.transpose(0, 2, 3, 1).reshape(batch, height * width, channels)
    left, right_weight = _positions(points[..., 0], width, padding_mode, align_corners)
    top, bottom_weight = _positions(points[..., 1], height, padding_mode, align_corners)
    total = jnp.zeros((), jnp.float32)
    for row, row_weight in ((top, 1 - bottom_weight), (top + 1, bottom_weight)):
        for column, weight in ((left, 1 - right_weight), (left + 1, right_weight)):
            inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            # In i32: f32 cannot hold odd integers from 2^24 on, and images can have more pixels.
            numbers = row.astype(jnp.int32) * width + column.astype(jnp.int32)
            indices = jnp.where(inside, numbers, 0)
            values = jnp.take_along_axis(pixels, indices[..., None], 1, mode="clip")
            values = jnp.where(inside[..., None], values.astype(jnp.float32), 0)
            total = total + values * (row_weight * weight)[..., None]
    sampled = total.transpose(0, 2, 1).reshape(batch, channels, *grid.shape[1:3])
    return sampled.astype(input.dtype)


def _positions(
    coordinates: Array, size: int, padding_mode: int, align_corners: bool
) -> tuple[Array, Array]:
    """Return the pixels before coordinates from -1 to 1, and the weights of the pixels after."""
    if align_corners:
        source = (coordinates + 1) * ((size - 1) / 2)
    else:
        source = ((coordinates + 1) * size - 1) / 2
    if padding_mode == REFLECTION:
        source = _reflected(source, size, align_corners)
    if padding_mode != ZEROS:
        source = jnp.clip(jnp.where(jnp.isnan(source), 0, source), 0, size - 1)
    low = jnp.floor(source)
    return low, source - low


def _reflected(source: Array, size: int, align_corners: bool) -> Array:
    """Reflect coordinates as often as needed, at the outermost centres with `align_corners`, and at
    the edges without."""
    low, span = (0.0, size - 1.0) if align_corners else (-0.5, float(size))
    if span == 0:
        return jnp.zeros_like(source)
    distance = jnp.abs(source - low)
    extra = lax.rem(distance, jnp.float32(span))
    even = lax.rem(jnp.floor(distance / span), jnp.float32(2)) == 0
    return jnp.where(even, extra, span - extra) + low
