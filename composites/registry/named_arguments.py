"""Requirements for a Python function to become a composite. This module does not import torch."""

import inspect
import keyword
from collections.abc import Callable
from typing import Any

from composites.errors import UnusableFunctionError


def named_signature(function: Callable[..., Any], target: str) -> inspect.Signature:
    """Return the signature of a function whose arguments can be those of a composite.

    Raises:
        UnusableFunctionError: the function takes `*args` or `**kwargs`, or its signature cannot be
            read.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise UnusableFunctionError(
            f"the signature of {target} cannot be read; wrap it in a Python function"
        ) from error
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise UnusableFunctionError(
                f"{target}{signature} takes *{parameter.name}; a composite's arguments need names"
            )
        if parameter.name[0] == "_" or keyword.iskeyword(parameter.name):
            raise UnusableFunctionError(
                f"{target}{signature}: {parameter.name!r} cannot be the name of an argument"
            )
    return signature
