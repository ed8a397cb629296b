"""Pipelines: plain lists of functions from module to module.

run_passes(module, [flatten_calls, partial(decompose, only="acme.*"), my_own_function])
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeAlias

from .candidates import callable_name
from .errors import PassError, VerificationError
from .in_place import InPlacePass
from .ir_types import IrModule
from .module import Module

Pass: TypeAlias = Callable[[Module], Module]


def run_passes(module: Module, passes: Iterable[Pass], *, verify: bool = True) -> Module:
    """Run the passes in order. The module is verified before the first pass and after each one.

    Without `verify`, the caller verifies the result.

    Raises:
        VerificationError: the module is invalid before the first pass.
        PassError: a pass broke the module or returned no module; the message names the pass.
    """
    if verify:
        module.verify()
    owned = False  # True if only this function holds the module
    for number, run in enumerate(passes, start=1):
        change = _in_place_change(run)
        if change is not None:
            result = module if owned else Module(module.copy_ir())
            change(result.ir)
            owned = True
        else:
            result = run(module)
            owned = False
        label = f"pass {number} ({callable_name(run)})"
        if not isinstance(result, Module):
            raise PassError(
                f"{label} returned {type(result).__name__}; "
                "a pass takes a Module and returns a Module"
            )
        try:
            if verify:
                result.verify()
        except VerificationError as error:
            raise PassError(f"{label} broke the module: {error}") from None
        module = result
    return module


def _in_place_change(run: Any) -> Callable[[IrModule], None] | None:
    """The change that an in-place pass, or a partial of it with keywords, makes to a module."""
    if isinstance(run, InPlacePass):
        return run.change
    if isinstance(run, partial) and isinstance(run.func, InPlacePass) and not run.args:
        return partial(run.func.change, **run.keywords)
    return None
