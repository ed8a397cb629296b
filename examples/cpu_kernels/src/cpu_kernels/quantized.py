"""Linear layers with weights of i8, for inputs of a few rows, as a model that writes a token has
them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from composites import UnsupportedCallError
from cpu_kernels.library import register
from cpu_kernels.types import check_floats, check_shape


def int8_weight_only_linear(
    input: Array, weight: Array, scale: Array, bias: Array | None = None
) -> Array:
    """`ptxla.int8_weight_only_linear`.

    Args:
        input: `[…, K]`; f32, bf16 or f16.
        weight: `[N, K]`, i8.
        scale: a number for each row of the weight, or one.
        bias: `[N]`.

    Raises:
        UnsupportedCallError: for weights of other types, and operands without elements.
    """
    _check(input, weight)
    if scale.size not in (1, weight.shape[0]):
        raise UnsupportedCallError("takes a scale for each row of the weight, or one")
    scales = jnp.broadcast_to(scale.reshape(-1, 1), (weight.shape[0], 1)).astype(np.float32)
    product = _product(input, weight, jnp.zeros_like(scales), scales)
    return product if bias is None else (product + bias).astype(input.dtype)


def intx_weight_only_linear(
    input: Array,
    weight: Array,
    scale: Array,
    zero_point: Array,
    bias: Array | None = None,
    *,
    bits: int,
    group_size: int,
    activation: str,
) -> Array:
    """`ptxla.intx_weight_only_linear`.

    Args:
        input: `[…, K]`; f32, bf16 or f16.
        weight: `[N, K]`, i8.
        scale: `[N, K / group_size]`, of the type of the input.
        zero_point: the same shape; i8, or a float type.
        bias: `[N]`.

    Raises:
        UnsupportedCallError: for an input that is quantized, and as `int8_weight_only_linear`.
    """
    _check(input, weight)
    check_floats(input, scale)
    if activation != "none" or group_size < 1 or weight.shape[1] % group_size:
        raise UnsupportedCallError("takes an input that is not quantized, and whole groups")
    for name, x in (("scales", scale), ("zero points", zero_point)):
        check_shape(name, x, (weight.shape[0], weight.shape[1] // group_size))
    # The decomposition subtracts in the type of the input.
    zeros = zero_point.astype(input.dtype).astype(np.float32)
    product = _product(input, weight, zeros, scale)
    return product if bias is None else product + bias


def _check(input: Array, weight: Array) -> None:
    check_floats(input)
    if weight.dtype != np.int8 or weight.ndim != 2 or 0 in (input.size, weight.size):
        raise UnsupportedCallError("takes a matrix of i8 as weight, with at least one number")
    check_shape("an input", input, (*input.shape[:-1], weight.shape[1]))


def _product(input: Array, weight: Array, zeros: Array, scales: Array) -> Array:
    register("quantized")
    rows = input.reshape(-1, input.shape[-1]).astype(np.float32)
    result = jax.ShapeDtypeStruct((rows.shape[0], weight.shape[0]), np.float32)
    call = jax.ffi.ffi_call("cpu_kernels_quantized_product", result)
    product = call(rows, weight, zeros, scales)
    return product.reshape(*input.shape[:-1], weight.shape[0]).astype(input.dtype)
