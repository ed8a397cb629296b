"""A linear layer with a weight of i8, for an input of one row."""

import jax.numpy as jnp
from jax import Array


def int8_weight_only_linear(
    input: Array, weight: Array, scale: Array, bias: Array | None = None
) -> Array:
    """`ptxla.int8_weight_only_linear` of one row. The sums are those of a product with the weight,
    which XLA's CPU compiler reads as i8 here; a matrix product has it written in a float type
    first, by one thread."""
    row = input.reshape(input.shape[-1])
    product = jnp.sum(weight.astype(input.dtype) * row, -1) * scale.astype(input.dtype).reshape(-1)
    result = product if bias is None else (product + bias).astype(input.dtype)
    return result.reshape(*input.shape[:-1], weight.shape[0])
