"""Whether two programs are the same: by their types, or by the numbers that they give."""

from ..bindings import IrModule, IrOperation
from ..comparison.difference import default_tolerance, error
from ..comparison.inputs import make_inputs
from ..composites import composites_of, signature
from ..dtypes import byte_size
from ..module import Module
from ..run import compile_module, function_types
from ..symbols import body, functions

LARGEST_INPUTS = 2**30
"""Programs with more bytes of inputs are not run to compare them."""

# Errors of many operations add up. A program of another meaning is off by much more.
_TOLERANCE = 100


def program_difference(one: Module, other: Module) -> str | None:
    """How two programs differ; None if they give the same numbers for inputs made of their types.

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


def type_difference(one: Module, other: Module) -> str | None:
    """How the composites of two programs, their attributes and types, and the types of inputs and
    outputs differ; None if they do not."""
    types, others = (function_types(functions(m.ir)["main"]) for m in (one, other))
    for kind, first, second in zip(("inputs", "outputs"), types, others, strict=True):
        if first != second:
            return f"{kind} of {', '.join(first)}, and not {', '.join(second)}"
    calls, expected = ({_call(c) for c in composites_of(m.ir)} for m in (one, other))
    if calls == expected:
        return None
    return f"it has the composite {min(calls ^ expected)}"


def _call(composite: IrOperation) -> str:
    found = signature(composite)
    return f"{found} {found.attributes or ''}@{found.version}"


def _input_bytes(module: IrModule) -> int:
    block = body(functions(module)["main"])
    return 0 if block is None else sum(byte_size(argument.type) for argument in block.arguments)
