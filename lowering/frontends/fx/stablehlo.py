"""From a function of JAX arrays to the StableHLO of a program.

JAX lowers the function, in which each composite is a primitive. Functions that JAX repeats for each
call are written once, in the form of torch_xla's exports.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from lowering.emission.types import TensorType
from lowering.frontends.fx import sizes
from lowering.frontends.jax.functions import lower_to_stablehlo
from lowering.stablehlo import (
    Module,
    bindings,
    canonicalize,
    drop_unused_functions,
    flatten_calls,
    fold_data_movement,
    legalize_chlo,
    run_passes,
    share_decompositions,
    unmerge_batch_dimensions,
)

_PASSES = (
    flatten_calls,
    drop_unused_functions,
    partial(legalize_chlo, kept=("chlo.erf",)),
    fold_data_movement,
    unmerge_batch_dimensions,
    canonicalize,
    share_decompositions,
)


def program(function: Callable[..., list[Any]], operands: Sequence[TensorType]) -> Module:
    """The StableHLO of a function; the pass `clean` would change only its names."""
    module = lower_to_stablehlo(function, operands, symbolic=sizes.vary())
    # Drop JAX's locations, which are lines of the rules and not of the program.
    bindings.run_pipeline(module.ir, "builtin.module(strip-debuginfo)")
    return run_passes(module, _PASSES, verify=False)
