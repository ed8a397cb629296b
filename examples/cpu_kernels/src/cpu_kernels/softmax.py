"""The gradients of softmax and log_softmax."""

from __future__ import annotations

import jax
from jax import Array

from composites import UnsupportedCallError
from cpu_kernels.library import register
from cpu_kernels.types import check_floats, check_shape, same


def softmax_backward(grad_output: Array, output: Array, *, dim: int) -> Array:
    """`ptxla.softmax_backward`.

    Args:
        grad_output, output: `[…, dim]`; f32, bf16 or f16, as the gradient is.

    Raises:
        UnsupportedCallError: for another dimension than the last one.
    """
    return _backward("softmax", grad_output, output, dim)


def log_softmax_backward(grad_output: Array, output: Array, *, dim: int) -> Array:
    """`ptxla.log_softmax_backward`, as `softmax_backward`."""
    return _backward("log_softmax", grad_output, output, dim)


def _backward(name: str, grad_output: Array, output: Array, dim: int) -> Array:
    check_floats(grad_output, output)
    check_shape("a gradient", grad_output, output.shape)
    if output.size == 0 or dim != output.ndim - 1:
        raise UnsupportedCallError("takes the last dimension, and at least one number")
    grads, results = (x.reshape(-1, output.shape[-1]) for x in (grad_output, output))
    register("softmax")
    call = jax.ffi.ffi_call(f"cpu_kernels_{name}_backward", same(results))
    return call(grads, results).reshape(output.shape)
