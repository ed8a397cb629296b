"""Functions named on the command line: `FILE.py:FUNCTION` or `package.module:FUNCTION`."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from composites.errors import CompositesError, did_you_mean
from composites.registry.functions import find_function
from composites.registry.named_arguments import UnusableFunctionError


class FactoryError(CompositesError):
    """The function is not there, or does not return what it should."""


def load_factory(target: str) -> tuple[Any, Sequence[Any], Mapping[str, Any]]:
    """Call a factory for a module and its example arguments.

    Raises:
        FactoryError: no such function, or it returns something else.
    """
    made = load_function(target)()
    parts = (*made, {})[:3] if isinstance(made, tuple) and len(made) in (2, 3) else (None,) * 3
    if not (isinstance(parts[1], Sequence) and isinstance(parts[2], Mapping)):
        raise FactoryError(
            f"{target} must return (module, args) or (module, args, kwargs), args a tuple and"
            f" kwargs a dict; it returned {_described(made)}"
        )
    return parts


def load_function(target: str) -> Callable[..., Any]:
    """The function that `FILE.py:FUNCTION` or `package.module:FUNCTION` names.

    Raises:
        FactoryError: there is none.
    """
    place, colon, name = target.rpartition(":")
    if not (colon and place and name):
        raise FactoryError(f"{target!r}: write FILE.py:FUNCTION or package.module:FUNCTION")
    if not place.endswith(".py"):
        try:
            return find_function(target)
        except UnusableFunctionError as error:
            raise FactoryError(f"{target}: {error}") from error
    path = Path(place)
    if not path.is_file():
        raise FactoryError(f"{place} is no file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise FactoryError(f"{place} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))  # as `python FILE.py` does
    spec.loader.exec_module(module)
    function = getattr(module, name, None)
    if not callable(function):
        known = [key for key, value in vars(module).items() if callable(value)]
        raise FactoryError(f"{place} has no function {name}{did_you_mean(name, known)}")
    return function  # type: ignore[no-any-return]


def _described(value: Any) -> str:
    if isinstance(value, tuple):
        return f"a tuple of {', '.join(type(item).__name__ for item in value) or 'nothing'}"
    return type(value).__name__
