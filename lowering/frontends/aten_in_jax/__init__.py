"""PyTorch functions as functions of JAX arrays.

A function of tensors is recorded as a graph of aten operators, without values and on no device
(`recording`). `evaluation` runs the graph on arrays with one rule for each core operator. The rules
are in one module for each family of operators, and `table` is where they register. Other operators
are decomposed by PyTorch.

PyTorch's 64-bit types become 32-bit types unless JAX has 64-bit types turned on, as in JAX's own
functions.
"""

from lowering.frontends.aten_in_jax import derived  # noqa: F401  (it registers its rules)
