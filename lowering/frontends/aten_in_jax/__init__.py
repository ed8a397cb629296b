"""PyTorch functions as functions of JAX arrays.

There is one rule for each core operator. The rules are in one module for each family of operators,
and register in `table`. `lowering.frontends.fx` records functions of tensors as graphs of these
operators, decomposes other operators, and runs the rules.

PyTorch's 64-bit types become 32-bit types unless JAX has 64-bit types turned on, as in JAX's own
functions.
"""

from lowering.frontends.aten_in_jax import (  # noqa: F401  (they register their rules)
    convolutions,
    creation,
    detection,
    distances,
    elementwise,
    embedding_bags,
    factorizations,
    fourier,
    indexing,
    linear_algebra,
    losses,
    norms,
    pooling,
    products,
    reductions,
    resampling,
    shapes,
    special,
)
