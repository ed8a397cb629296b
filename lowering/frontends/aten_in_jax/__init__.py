"""PyTorch functions as functions of JAX arrays.

A function of tensors is recorded as a graph of aten operators, without values and on no device
(`recording`). `evaluate` runs the graph on arrays with one rule for each core operator. The rules
are in one module for each family of operators, and `table` is where they register. Other operators
are decomposed by PyTorch.

PyTorch's 64-bit types become 32-bit types unless JAX has 64-bit types turned on, as in JAX's own
functions.
"""

from lowering.frontends.aten_in_jax import derived  # noqa: F401  (it registers its rules)
from lowering.frontends.aten_in_jax.dtypes import jax_dtype, torch_dtype
from lowering.frontends.aten_in_jax.evaluation import evaluate
from lowering.frontends.aten_in_jax.recording import RecordedGraph, is_symbolic, record
from lowering.frontends.aten_in_jax.table import UnknownOperatorError, has_rule

__all__ = [
    "RecordedGraph",
    "UnknownOperatorError",
    "evaluate",
    "has_rule",
    "is_symbolic",
    "jax_dtype",
    "record",
    "torch_dtype",
]
