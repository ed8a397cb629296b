"""JAX decompositions."""

import jax


def gelu(x, *, approximate):
    return jax.nn.gelu(x, approximate=approximate == "tanh")
