"""Products of attention with an f32 accumulator."""

import jax.numpy as jnp
from jax import Array


def f32(operand: Array) -> Array:
    """Convert an operand of a product to f32. Products of two bf16 numbers stay the same.

    torch_xla's CPU runtime rejects products of bf16 to f32 with two batch dimensions, such as batch
    and heads.
    """
    return operand.astype(jnp.float32)


def product(equation: str, left: Array, right: Array) -> Array:
    """`jnp.einsum` of both operands in f32, which a GPU may round to TF32."""
    return jnp.einsum(equation, f32(left), f32(right))
