"""Sampling of images at the points of a grid, and its gradients."""

from __future__ import annotations

import jax
import numpy as np
from jax import Array

from composites import UnsupportedCallError
from cpu_kernels.library import register
from cpu_kernels.types import check_floats, check_shape, same


def grid_sampler_2d(
    input: Array, grid: Array, *, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Array:
    """`ptxla.grid_sampler_2d`.

    Args:
        input: `[N, C, H, W]`; f32, bf16 or f16.
        grid: `[N, h, w, 2]`: (x, y) from -1 to 1, of the type of `input`.
        interpolation_mode: 0 is bilinear, 1 nearest, and 2 bicubic.
        padding_mode: 0 is zeros, 1 border, and 2 reflection.

    Returns:
        `[N, C, h, w]`.

    Raises:
        UnsupportedCallError: without pixels or points, and for images of 2^31 pixels and more.
    """
    _check(input, grid)
    attributes = _attributes(interpolation_mode, padding_mode, align_corners)
    register("grid_sampling")
    result = same(input, (*input.shape[:2], *grid.shape[1:3]))
    return jax.ffi.ffi_call("cpu_kernels_grid_sampler", result)(input, grid, **attributes)


def grid_sampler_2d_backward(
    grad_output: Array,
    input: Array,
    grid: Array,
    *,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    output_mask: tuple[bool, ...],
) -> list[Array]:
    """`ptxla.grid_sampler_2d_backward`: the gradients of image and grid.

    Args:
        grad_output: `[N, C, h, w]`.
        output_mask: the gradient of the image is zero if the first is false. The gradient of the
            grid is always computed, as the decomposition does.

    Raises:
        UnsupportedCallError: as the forward.
    """
    _check(grad_output, input, grid)
    check_shape("a gradient", grad_output, (*input.shape[:2], *grid.shape[1:3]))
    attributes = _attributes(interpolation_mode, padding_mode, align_corners)
    register("grid_sampling")
    call = jax.ffi.ffi_call("cpu_kernels_grid_sampler_backward", (same(input), same(grid)))
    return list(call(grad_output, input, grid, of_image=np.bool_(output_mask[0]), **attributes))


def _check(*operands: Array) -> None:
    check_floats(*operands)
    *_, image, grid = operands
    if image.ndim != 4 or grid.ndim != 4:
        raise UnsupportedCallError("takes images and a grid of four dimensions")
    check_shape("a grid", grid, (image.shape[0], *grid.shape[1:3], 2))
    if 0 in image.shape or 0 in grid.shape:
        raise UnsupportedCallError("takes at least one pixel and one point")
    if image.shape[2] * image.shape[3] >= 2**31:
        raise UnsupportedCallError("takes images of fewer than 2^31 pixels")


def _attributes(
    interpolation_mode: int, padding_mode: int, align_corners: bool
) -> dict[str, np.generic]:
    if interpolation_mode not in (0, 1, 2) or padding_mode not in (0, 1, 2):
        raise UnsupportedCallError(
            "takes an interpolation_mode and a padding_mode of 0, 1 or 2, not"
            f" {interpolation_mode} and {padding_mode}"
        )
    return {
        "interpolation": np.int64(interpolation_mode),
        "padding": np.int64(padding_mode),
        "align_corners": np.bool_(align_corners),
    }
