"""Products of attention, which add up in f32."""

import jax.numpy as jnp
from jax import Array


def f32(operand: Array) -> Array:
    """An operand of a product in f32, which changes no product of two bf16 numbers.

    torch_xla's CPU runtime refuses products from bf16 to f32 with two batch dimensions, as batch
    and heads are.
    """
    return operand.astype(jnp.float32)


def product(equation: str, one: Array, other: Array) -> Array:
    """`jnp.einsum` of both operands in f32. A GPU may round them to TF32, as it does for stock."""
    return jnp.einsum(equation, f32(one), f32(other))
