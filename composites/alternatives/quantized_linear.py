"""A linear layer with a weight of i8, for an input of one row."""

import jax.numpy as jnp
from jax import Array


def int8_weight_only_linear(
    input: Array, weight: Array, scale: Array, bias: Array | None = None
) -> Array:
    """`ptxla.int8_weight_only_linear` of one row. XLA's CPU compiler reads the weight as i8 inside
    these sums; for a matmul, it first writes the whole weight in a float type."""
    row = input.reshape(input.shape[-1])
    product = jnp.sum(weight.astype(input.dtype) * row, -1) * scale.astype(input.dtype).reshape(-1)
    result = product if bias is None else (product + bias).astype(input.dtype)
    return result.reshape(*input.shape[:-1], weight.shape[0])
