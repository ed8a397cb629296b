"""Decomposition functions: the one place where text of a YAML file becomes code, by import."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from types import ModuleType
from typing import Any

from composites.errors import did_you_mean
from composites.registry.named_arguments import UnusableFunctionError
from composites.registry.operators import Argument, Operator


def find_function(target: str) -> Callable[..., Any]:
    """Import `package.module:function`.

    Raises:
        UnusableFunctionError: no such module or function, or the import failed.
    """
    module_name, _, function_name = target.partition(":")
    module = import_module(module_name)
    function = getattr(module, function_name, None)
    if function is None:
        known = [name for name, value in vars(module).items() if callable(value)]
        hint = did_you_mean(function_name, known)
        raise UnusableFunctionError(f"module {module_name} has no {function_name}{hint}")
    if not callable(function):
        raise UnusableFunctionError(f"{target} is no function but {type(function).__name__}")
    return function  # type: ignore[no-any-return]


def import_module(module_name: str) -> ModuleType:
    """Import a module.

    Raises:
        UnusableFunctionError: there is none, or its import failed.
    """
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise UnusableFunctionError(_missing_module(module_name, error)) from error
    except Exception as error:
        raise UnusableFunctionError(
            f"importing {module_name} failed: {type(error).__name__}: {error}"
        ) from error


def check_signature(function: Callable[..., Any], target: str, operator: Operator) -> None:
    """Refuse a function that cannot take the operator's arguments as they are passed.

    Positional arguments may have any names; keyword-only ones are passed by name.

    Raises:
        UnusableFunctionError: with the signature that fits.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some built-in functions have none to read
        return
    positional = [argument for argument in operator.arguments if not argument.keyword_only]
    keywords = {argument.name: None for argument in operator.arguments if argument.keyword_only}
    try:
        signature.bind(*positional, **keywords)
    except TypeError as error:
        name = target.rpartition(":")[2]
        fitting = f"def {name}({', '.join(_parameters(operator))})"
        raise UnusableFunctionError(
            f"{target}{signature} does not take the arguments of {operator.qualified}"
            f" ({error}); write {fitting}"
        ) from error


def _parameters(operator: Operator) -> list[str]:
    written: list[str] = []
    for argument in operator.arguments:
        if argument.keyword_only and "*" not in written:
            written.append("*")
        written.append(_parameter(argument))
    return written


def _parameter(argument: Argument) -> str:
    return f"{argument.name}={argument.default!r}" if argument.has_default else argument.name


def _missing_module(module_name: str, error: ModuleNotFoundError) -> str:
    missing = error.name or module_name
    if missing != module_name and not module_name.startswith(f"{missing}."):
        return f"importing {module_name} failed: package {missing} is not installed"
    parent, _, last = missing.rpartition(".")
    siblings = pkgutil.iter_modules(importlib.import_module(parent).__path__ if parent else None)
    hint = did_you_mean(last, [module.name for module in siblings])
    return f"there is no module {missing}{hint}"
