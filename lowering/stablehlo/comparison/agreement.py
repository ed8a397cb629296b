"""Checks that two programs give the same numbers."""

from ..module import Module
from ..run import compile_module, function_types
from ..symbols import functions
from .difference import default_tolerance, error
from .inputs import make_inputs
from .timing import moved_bytes

LARGEST_INPUTS = 2**30
"""Programs with more bytes of inputs are not run to compare them."""

# Errors of many operations add up. A program with another meaning differs by much more.
_TOLERANCE = 100


def program_difference(left: Module, right: Module) -> str | None:
    """The difference of two programs; None if they give the same numbers for inputs of their types.

    Both run once on the CPU, unless their inputs are too large.

    Raises:
        RunError: XLA rejects one of the programs.
    """
    left_types, right_types = (function_types(functions(m.ir)["main"]) for m in (left, right))
    if left_types != right_types:
        return "it has inputs or outputs of other types"
    if moved_bytes(left_types[0]) > LARGEST_INPUTS:
        return "its inputs are too large to run it and compare"
    run_left, run_right = (compile_module(module) for module in (left, right))
    arrays = make_inputs(left, run_left).arrays
    off = error(run_left(*arrays), run_right(*arrays))
    # The result with the least precise type decides; integers and booleans must be equal.
    allowed = _TOLERANCE * default_tolerance([*left_types[0], *left_types[1]])
    return f"it gives other numbers (error {off:.1e})" if off > allowed else None
