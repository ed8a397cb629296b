"""Replacing what a Python function does, wherever it is held.

Programs hold functions of JAX in many places: as names of modules, fields of flax modules, values
of dictionaries, or inside what `jax.jit` returned. The function object stays the same in all of
them. Only its code changes, and comes back when nothing catches the function any more.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

from composites.errors import UnusableFunctionError, did_you_mean
from composites.functions import import_module

Handler = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
"""Takes the original function, and the arguments of a call."""


class Replaced:
    """A function whose calls go to a handler until `restore`."""

    def __init__(self, function: FunctionType, handler: Handler) -> None:
        self._function = function
        self._code = function.__code__
        original = FunctionType(
            self._code, function.__globals__, function.__name__, function.__defaults__
        )
        original.__kwdefaults__ = function.__kwdefaults__
        original.__qualname__ = function.__qualname__
        self._signature = vars(function).get("__signature__")

        def handled(*arguments: Any, **keywords: Any) -> Any:
            return handler(original, arguments, keywords)

        # `jax.jit` and flax ask functions for their arguments.
        function.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
        function.__code__ = _calling(handled, self._code)

    def restore(self) -> None:
        """Have the function do again what it did."""
        self._function.__code__ = self._code
        if self._signature is None:
            vars(self._function).pop("__signature__", None)
        else:
            vars(self._function)["__signature__"] = self._signature


def _calling(handled: Callable[..., Any], code: CodeType) -> CodeType:
    """Code that calls a function, which it holds as a constant."""

    def call(*arguments: Any, **keywords: Any) -> Any:
        handled: Any = "handled"
        return handled(*arguments, **keywords)

    assert "handled" in call.__code__.co_consts
    constants = tuple(handled if c == "handled" else c for c in call.__code__.co_consts)
    return call.__code__.replace(
        co_consts=constants, co_name=code.co_name, co_qualname=code.co_qualname
    )


@dataclass(frozen=True, slots=True)
class Replaceable:
    """A function without what decorators put around it."""

    function: FunctionType
    is_compiled: bool
    """Whether `jax.jit` is among them."""


def find_replaceable(target: str) -> Replaceable:
    """The function of `package.module:Class.method`.

    Raises:
        UnusableFunctionError: there is none, or its code cannot be replaced.
    """
    name, _, path = target.partition(":")
    owner: Any = import_module(name)
    for part in path.split("."):
        if not hasattr(owner, part):
            raise UnusableFunctionError(
                f"{owner.__name__} has no {part}{did_you_mean(part, list(vars(owner)))}"
            )
        owner = inspect.getattr_static(owner, part)
    found = inspect.unwrap(owner)
    if not isinstance(found, FunctionType) or found.__code__.co_freevars:
        raise UnusableFunctionError(
            f"{target} cannot be caught: it is not a plain function, or has variables of an"
            " enclosing one"
        )
    return Replaceable(found, _is_compiled(owner))


def _is_compiled(value: Any) -> bool:
    while hasattr(value, "__wrapped__"):
        if hasattr(value, "lower"):  # as what jax.jit returns has
            return True
        value = value.__wrapped__
    return False
