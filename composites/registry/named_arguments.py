"""What a Python function's arguments must be for it to be a composite; needs no torch."""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable
from typing import Any

from composites.errors import UnusableFunctionError


def named_signature(function: Callable[..., Any], target: str) -> inspect.Signature:
    """A function's signature, whose arguments can be those of a composite.

    Raises:
        UnusableFunctionError: it takes `*args` or `**kwargs`, or has no signature to read.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise UnusableFunctionError(
            f"{target} has no signature to read; call it in a function written in Python"
        ) from error
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise UnusableFunctionError(
                f"{target}{signature} takes *{parameter.name}; a composite's arguments have names"
            )
        if parameter.name[0] == "_" or keyword.iskeyword(parameter.name):
            raise UnusableFunctionError(
                f"{target}{signature}: an argument cannot be called {parameter.name!r}"
            )
    return signature
