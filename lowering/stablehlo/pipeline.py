"""Pipelines: plain lists of functions from module to module.

run_passes(module, [flatten_calls, partial(decompose, only="acme.*"), my_own_function])
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeAlias

from .errors import PassError, VerificationError
from .in_place import InPlacePass
from .module import Module

Pass: TypeAlias = Callable[[Module], Module]


def run_passes(module: Module, passes: Iterable[Pass], *, verify: bool = True) -> Module:
    """Run the passes in order, verifying the module on entry and after each one.

    Without `verify`, the caller verifies the result.

    Raises:
      VerificationError: when the module is broken before the first pass.
      PassError: names the pass that broke the module, or that did not return one.
    """
    if verify:
        module.verify()
    owned = False  # whether nobody else holds this module
    for number, run in enumerate(passes, start=1):
        if isinstance(run, InPlacePass):
            result = module if owned else Module(module.copy_ir())
            run.change(result.ir)
            owned = True
        else:
            result = run(module)
            owned = False
        if not isinstance(result, Module):
            raise PassError(
                f"pass {number} ({pass_name(run)}) returned {type(result).__name__}; "
                "a pass takes a Module and returns a Module"
            )
        try:
            if verify:
                result.verify()
        except VerificationError as error:
            raise PassError(f"pass {number} ({pass_name(run)}) broke the module: {error}") from None
        module = result
    return module


def pass_name(run: Any) -> str:
    """What to call a pass in a message: a partial goes by the function inside it."""
    while isinstance(run, partial):
        run = run.func
    return getattr(run, "__name__", type(run).__name__)
