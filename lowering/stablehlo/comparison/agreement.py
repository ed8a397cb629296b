"""Checks that two programs give the same numbers."""

from ..module import Module
from ..run import compile_module, function_types
from ..symbols import functions
from .difference import default_tolerance, error
from .inputs import make_inputs
from .timing import moved_bytes

LARGEST_INPUTS = 2**30
"""Programs with more bytes of inputs are not run to compare them."""

# Errors of many operations add up. A program of another meaning is off by much more.
_TOLERANCE = 100


def program_difference(one: Module, other: Module) -> str | None:
    """The difference of two programs; None if they give the same numbers for inputs of their types.

    Both run once on the CPU, unless their inputs are too large.

    Raises:
        RunError: XLA rejects one of them.
    """
    types, others = (function_types(functions(m.ir)["main"]) for m in (one, other))
    if types != others:
        return "it has inputs or outputs of other types"
    if moved_bytes(types[0]) > LARGEST_INPUTS:
        return "its inputs are too large to run it and compare"
    first, second = (compile_module(module) for module in (one, other))
    arrays = make_inputs(one, first).arrays
    off = error(first(*arrays), second(*arrays))
    # The result with the least precise type decides; integers and booleans are the same.
    allowed = _TOLERANCE * default_tolerance([*types[0], *types[1]])
    return f"it gives other numbers (error {off:.1e})" if off > allowed else None
