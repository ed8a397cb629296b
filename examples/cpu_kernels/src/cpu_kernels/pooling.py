"""The gradient of max_pool2d."""

from __future__ import annotations

import jax
import numpy as np
from jax import Array

from composites import UnsupportedCallError
from cpu_kernels.library import register
from cpu_kernels.types import check_floats, check_shape, same


def max_pool2d_backward(
    grad_output: Array,
    x: Array,
    *,
    kernel_size: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    ceil_mode: bool,
    output_mask: tuple[bool, ...],
) -> Array:
    """`ptxla.max_pool2d_backward`.

    Args:
        grad_output: `[N, C, H', W']`; f32, bf16 or f16.
        x: `[N, C, H, W]`.
        ceil_mode: which has its effect on the size of `grad_output`.

    Raises:
        UnsupportedCallError: for other ranks, with dilation, and for a gradient of another size
            than the window leads to.
    """
    check_floats(grad_output, x)
    if x.ndim != 4 or x.size == 0 or output_mask != (True,):
        raise UnsupportedCallError("takes four dimensions")
    if _two(dilation) != (1, 1):
        raise UnsupportedCallError("takes no dilation")
    sizes = [_two(kernel_size), _two(stride or kernel_size), _two(padding)]
    if min(*sizes[0], *sizes[1]) < 1 or any(
        not 0 <= 2 * pad <= kernel for kernel, pad in zip(sizes[0], sizes[2], strict=True)
    ):
        raise UnsupportedCallError(
            "takes a kernel and a stride of at least 1, and a padding of at most half the kernel,"
            f" not {sizes}"
        )
    pooled = (_pooled(*each, ceil_mode) for each in zip(x.shape[2:], *sizes, strict=True))
    check_shape("a gradient", grad_output, (*x.shape[:2], *pooled))
    register("pooling")
    call = jax.ffi.ffi_call("cpu_kernels_max_pool_backward", same(x))
    return call(grad_output, x, window=np.array(sizes, np.int64).reshape(-1))


def _pooled(size: int, kernel: int, stride: int, padding: int, ceil_mode: bool) -> int:
    """The size of the result, as PyTorch has it. No window starts in the padding behind."""
    room = size + 2 * padding - kernel
    count = (room + (stride - 1 if ceil_mode else 0)) // stride + 1
    return count - (ceil_mode and (count - 1) * stride >= size + padding)


def _two(numbers: tuple[int, ...]) -> tuple[int, int]:
    """PyTorch takes one number for both dimensions."""
    return (numbers[0], numbers[-1])
