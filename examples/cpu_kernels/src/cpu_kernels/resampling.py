"""Bilinear upsampling."""

from __future__ import annotations

import jax
import numpy as np
from jax import Array

from composites import UnsupportedCallError
from cpu_kernels.library import register
from cpu_kernels.types import check_floats, check_shape, same


def upsample_bilinear2d(
    x: Array,
    *,
    output_size: tuple[int, ...],
    align_corners: bool,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Array:
    """`ptxla.upsample_bilinear2d`.

    Args:
        x: `[N, C, H, W]`; f32, bf16 or f16.

    Returns:
        `[N, C, *output_size]`.

    Raises:
        UnsupportedCallError: for scales that do not lead from the input's size to the output's.
    """
    check_floats(x)
    _check(x.shape, output_size, scales_h, scales_w)
    register("resampling")
    result = same(x, (*x.shape[:2], *output_size))
    call = jax.ffi.ffi_call("cpu_kernels_bilinear", result)
    return call(x, align_corners=np.bool_(align_corners))


def upsample_bilinear2d_backward(
    grad_output: Array,
    *,
    output_size: tuple[int, ...],
    input_size: tuple[int, ...],
    align_corners: bool,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Array:
    """`ptxla.upsample_bilinear2d_backward`.

    Args:
        grad_output: `[N, C, *output_size]`.

    Returns:
        `input_size`: `[N, C, H, W]`.

    Raises:
        UnsupportedCallError: as the forward.
    """
    check_floats(grad_output)
    _check(input_size, output_size, scales_h, scales_w)
    check_shape("a gradient", grad_output, (*input_size[:2], *output_size))
    register("resampling")
    call = jax.ffi.ffi_call("cpu_kernels_bilinear_backward", same(grad_output, tuple(input_size)))
    return call(grad_output, align_corners=np.bool_(align_corners))


def _check(
    shape: tuple[int, ...],
    output_size: tuple[int, ...],
    scales_h: float | None,
    scales_w: float | None,
) -> None:
    if len(shape) != 4 or len(output_size) != 2:
        raise UnsupportedCallError("takes four dimensions, two of which it resamples")
    if min(*shape, *output_size) < 1:
        raise UnsupportedCallError("takes at least one pixel")
    for size, expected, scale in zip(shape[2:], output_size, (scales_h, scales_w), strict=True):
        if scale is not None and size * scale != expected:
            raise UnsupportedCallError(f"takes no scale {scale:g} from {size} to {expected}")
