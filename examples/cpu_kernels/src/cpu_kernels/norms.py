"""The gradients of group_norm and layer_norm."""

from __future__ import annotations

import jax
import numpy as np
from jax import Array

from composites import UnsupportedCallError
from cpu_kernels.library import register
from cpu_kernels.types import check_floats, check_shape, same


def group_norm_backward(
    grad_output: Array,
    x: Array,
    weight: Array,
    *saved: Array,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
    output_mask: tuple[bool, ...],
) -> list[Array]:
    """`ptxla.group_norm_backward`: the gradients of x, weight and bias.

    Args:
        grad_output, x: `[N, C, …]`; f32, bf16 or f16.
        weight: `[C]`.
        saved: the bias `[C]`; mean and reciprocal standard deviation of each group, `[N, group]`.
        eps: what the forward has added to the variance, which is in `saved`.

    Raises:
        UnsupportedCallError: without weight or bias, where a gradient is not needed, and where the
            sizes are not those of the operands.
    """
    del eps
    check_floats(grad_output, x, weight, *saved)
    if len(saved) != 3 or weight.ndim != 1 or output_mask != (True, True, True) or x.size == 0:
        raise UnsupportedCallError("computes the gradients of x, weight and bias")
    bias, mean, rstd = saved
    if x.shape[:2] != (N, C) or x.size != N * C * HxW or group < 1 or C % group:
        raise UnsupportedCallError(
            f"takes sizes that are those of x, and groups that divide the channels, not N = {N},"
            f" C = {C}, HxW = {HxW} and group = {group} for {x.shape}"
        )
    check_shape("a gradient", grad_output, x.shape)
    for name, channels in (("a weight", weight), ("a bias", bias)):
        check_shape(name, channels, (C,))
    for name, groups in (("a mean", mean), ("a reciprocal standard deviation", rstd)):
        check_shape(name, groups, (N, group))
    register("norms")
    call = jax.ffi.ffi_call("cpu_kernels_group_norm_backward", (same(x), same(weight), same(bias)))
    sizes = {"batch": N, "channels": C, "size": HxW, "groups": group}
    attributes = {name: np.int64(size) for name, size in sizes.items()}
    return list(call(grad_output, x, weight, mean, rstd, **attributes))


def layer_norm_backward(
    grad_output: Array,
    x: Array,
    weight: Array,
    *saved: Array,
    normalized_shape: tuple[int, ...],
    eps: float,
    output_mask: tuple[bool, ...],
) -> list[Array]:
    """`ptxla.layer_norm_backward`: the gradients of x, weight and bias.

    Args:
        grad_output, x: `[…, *normalized_shape]`; f32, bf16 or f16.
        weight: `normalized_shape`.
        saved: the bias, as `weight`; mean and reciprocal standard deviation, `[…, 1, …]`. They may
            be f32 where x is bf16 or f16, as in programs that are exported without torch_xla.
        eps: what the forward has added to the variance, which is in `saved`.

    Raises:
        UnsupportedCallError: without weight or bias, and where a gradient is not needed.
    """
    del eps
    check_floats(grad_output, x, weight, *saved[:1])
    if len(saved) != 3 or weight.shape != tuple(normalized_shape) or x.size == 0:
        raise UnsupportedCallError("takes a weight and a bias, and at least one number")
    if output_mask != (True, True, True):
        raise UnsupportedCallError("computes the gradients of x, weight and bias")
    bias, mean, rstd = saved
    axes = x.ndim - weight.ndim
    check_shape("x", x, (*x.shape[:axes], *normalized_shape))
    check_shape("a gradient", grad_output, x.shape)
    check_shape("a bias", bias, weight.shape)
    for name, rows in (("a mean", mean), ("a reciprocal standard deviation", rstd)):
        check_shape(name, rows, (*x.shape[:axes], *(1 for _ in normalized_shape)))
    mean, rstd = (statistic.astype(np.float32) for statistic in (mean, rstd))
    register("norms")
    call = jax.ffi.ffi_call("cpu_kernels_layer_norm_backward", (same(x), same(weight), same(bias)))
    return list(call(grad_output, x, weight, mean, rstd))
