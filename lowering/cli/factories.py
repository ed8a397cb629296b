"""Factories for `composites export` and `suggest`: functions that return a module and its example
arguments."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from composites.errors import CompositesError, UnusableFunctionError
from composites.functions import load_function
from composites.user_code import error_line

FactoryArgument = Annotated[
    str,
    typer.Argument(
        help="FILE.py:FUNCTION or package.module:FUNCTION; the function returns"
        " (module, args) or (module, args, kwargs).",
        show_default=False,
    ),
]
"""The argument of commands that names a factory."""


def load_factory(target: str) -> tuple[Any, Sequence[Any], Mapping[str, Any]]:
    """Call a factory and return the module, its example arguments and its keyword arguments.

    Raises:
        UnusableFunctionError: the function does not exist, raises, or returns something else.
    """
    factory = load_function(target)
    try:
        value = factory()
    except CompositesError:
        raise
    except Exception as error:
        raise UnusableFunctionError(
            f"{error_line(error)}{target} raised {type(error).__name__}: {error}"
        ) from error
    parts = (*value, {})[:3] if isinstance(value, tuple) and len(value) in (2, 3) else (None,) * 3
    if not (isinstance(parts[1], Sequence) and isinstance(parts[2], Mapping)):
        raise UnusableFunctionError(
            f"{target} must return (module, args) or (module, args, kwargs), where args is a tuple"
            f" and kwargs a dict; it returned {_described(value)}"
        )
    return parts


def _described(value: Any) -> str:
    if isinstance(value, tuple):
        return f"a tuple of {', '.join(type(item).__name__ for item in value) or 'nothing'}"
    return type(value).__name__
