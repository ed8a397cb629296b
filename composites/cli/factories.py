"""`composites export FACTORY`: a function that gives a module and its example arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from composites.errors import CompositesError
from composites.functions import load_function


class FactoryError(CompositesError):
    """The function does not return what it should."""


def load_factory(target: str) -> tuple[Any, Sequence[Any], Mapping[str, Any]]:
    """Call a factory for a module and its example arguments.

    Raises:
        UnusableFunctionError: there is no such function.
        FactoryError: it returns something else.
    """
    made = load_function(target)()
    parts = (*made, {})[:3] if isinstance(made, tuple) and len(made) in (2, 3) else (None,) * 3
    if not (isinstance(parts[1], Sequence) and isinstance(parts[2], Mapping)):
        raise FactoryError(
            f"{target} must return (module, args) or (module, args, kwargs), args a tuple and"
            f" kwargs a dict; it returned {_described(made)}"
        )
    return parts


def _described(value: Any) -> str:
    if isinstance(value, tuple):
        return f"a tuple of {', '.join(type(item).__name__ for item in value) or 'nothing'}"
    return type(value).__name__
