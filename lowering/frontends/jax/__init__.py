"""JAX: decompositions that are written in it, and composites in programs that are.

`functions` lowers `jax:` decompositions for the graphs of a frontend. `composite_call` is the
primitive that a composite is in a JAX program. `internals` is the only module that uses private
interfaces of JAX.
"""

from lowering.frontends.jax.functions import (
    blank,
    gradients_of,
    leaves,
    lower_to_hlo,
    lower_to_jaxpr,
    lower_to_stablehlo,
    optimization_barrier,
    replacement,
)

__all__ = [
    "blank",
    "gradients_of",
    "leaves",
    "lower_to_hlo",
    "lower_to_jaxpr",
    "lower_to_stablehlo",
    "optimization_barrier",
    "replacement",
]
