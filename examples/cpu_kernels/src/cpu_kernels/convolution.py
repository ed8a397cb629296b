"""Convolutions and their gradients, by ATen's kernels, which read XLA's buffers where they lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax import Array

from composites import UnsupportedCallError
from cpu_kernels.library import register
from cpu_kernels.types import check_floats, same


def conv(
    x: Array,
    weight: Array,
    *bias: Array,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Array:
    """`cpu_kernels.conv`.

    Args:
        x: `[N, C, …]`, of one to three dimensions behind the channels; f32, bf16 or f16.
        weight: `[D, C / groups, …]`, or `[C, D / groups, …]` if `transposed`.
        bias: none, or `[D]`.

    Returns:
        `[N, D, …]`.

    Raises:
        UnsupportedCallError: for other types and ranks, and without torch.
    """
    _check(x, weight, *bias)
    geometry = _geometry(x, stride, padding, dilation, transposed, output_padding, groups)
    sizes = [
        (size - 1) * s - 2 * p + d * (k - 1) + more + 1
        if transposed
        else (size + 2 * p - d * (k - 1) - 1) // s + 1
        for size, k, s, p, d, more in zip(
            x.shape[2:],
            weight.shape[2:],
            *(geometry[name] for name in ("stride", "padding", "dilation", "output_padding")),
            strict=True,
        )
    ]
    channels = weight.shape[1] * groups if transposed else weight.shape[0]
    register("convolution", needs_torch=True)
    result = same(x, (x.shape[0], channels, *map(int, sizes)))
    return jax.ffi.ffi_call("cpu_kernels_convolution", result)(x, weight, *bias, **geometry)


def conv_backward(
    grad_output: Array,
    x: Array,
    weight: Array,
    *,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: tuple[bool, ...],
) -> list[Array]:
    """`cpu_kernels.conv_backward`: the gradients of x, weight and bias that `output_mask` wants.

    Args:
        grad_output: `[N, D, …]`.

    Raises:
        UnsupportedCallError: as the forward.
    """
    _check(grad_output, x, weight)
    of_x, of_weight, of_bias = output_mask
    geometry = _geometry(x, stride, padding, dilation, transposed, output_padding, groups)
    types = [same(x), same(weight), same(weight, grad_output.shape[1:2])]
    register("convolution", needs_torch=True)
    call = jax.ffi.ffi_call(
        "cpu_kernels_convolution_backward",
        [type_ for type_, needed in zip(types, output_mask, strict=True) if needed],
    )
    requested = {"of_images": of_x, "of_weights": of_weight, "of_bias": of_bias}
    flags = {name: np.bool_(flag) for name, flag in requested.items()}
    return list(call(grad_output, x, weight, **geometry, **flags))


def _check(*operands: Array) -> None:
    check_floats(*operands)
    if operands[0].ndim not in (3, 4, 5):
        raise UnsupportedCallError("takes one to three dimensions behind the channels")
    if any(operand.size == 0 for operand in operands):
        raise UnsupportedCallError("takes at least one number")


def _geometry(
    x: Array,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> dict[str, Any]:
    """The attributes as the kernels take them: one number for each dimension of an image."""
    parameters = {
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "output_padding": output_padding,
    }
    # PyTorch takes one number for all dimensions.
    rank = x.ndim - 2
    each = {name: np.array(np.broadcast_to(n, (rank,)), np.int64) for name, n in parameters.items()}
    return {**each, "transposed": np.bool_(transposed), "groups": np.int64(groups)}
