"""Checks that two programs give the same numbers."""

from ..bindings import IrModule
from ..dtypes import byte_size
from ..module import Module
from ..run import compile_module, function_types
from ..symbols import body, functions
from .difference import default_tolerance, error
from .inputs import make_inputs

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
    if _input_bytes(one.ir) > LARGEST_INPUTS:
        return "its inputs are too large to run it and compare"
    first, second = (compile_module(module) for module in (one, other))
    arrays = make_inputs(one, first).arrays
    off = error(first(*arrays), second(*arrays))
    # The result with the least precise type decides; integers and booleans are the same.
    allowed = _TOLERANCE * default_tolerance([*types[0], *types[1]])
    return f"it gives other numbers (error {off:.1e})" if off > allowed else None


def _input_bytes(module: IrModule) -> int:
    block = body(functions(module)["main"])
    return 0 if block is None else sum(byte_size(argument.type) for argument in block.arguments)
