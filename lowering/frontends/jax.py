"""JAX functions as decompositions, lowered to HLO for the shapes and dtypes of a call.

Tested with jax 0.7.1, 0.10.2 and 0.12.0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from lowering.emission.types import DecompositionHlo, TensorType
from lowering.stablehlo.dtypes import numpy_dtype
from lowering.stablehlo.run import enable_x64

optimization_barrier = jax.lax.optimization_barrier


def lower_function(
    function: Callable[..., Any], operands: Sequence[TensorType | None]
) -> DecompositionHlo:
    """Lower a function of arrays. An operand that is None is passed as None.

    64-bit types are kept, as in PyTorch, whatever JAX's own setting is.
    """
    with enable_x64():
        arrays = [
            None if t is None else jax.ShapeDtypeStruct(t.shape, numpy_dtype(t.element_type))
            for t in operands
        ]
        # keep_unused: parameter N is operand N even if the function does not read it.
        lowered = jax.jit(function, keep_unused=True).lower(*arrays)
        computation = lowered.compiler_ir(dialect="hlo")
    if computation is None:
        raise RuntimeError("jax returned no HLO for this function")
    present = sum(operand is not None for operand in operands)
    return DecompositionHlo(computation.as_serialized_hlo_module_proto(), tuple(range(present)))
