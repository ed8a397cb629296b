"""Hooks in memory: modules made from generated source, whose lines appear in tracebacks."""

import inspect
import linecache
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import ModuleType
from typing import Any

import torch

from composites.errors import AllowlistError, UnusableFunctionError
from composites.registry.conditions import ConditionError
from composites.registry.model import Composite, Registry
from lowering.codegen.conditions import condition_source
from lowering.codegen.source import function_hook_source, generate


def load_hooks(registry: Registry) -> ModuleType:
    """Generate and load the hooks of a registry in memory."""
    text = generate(registry, registry.source)
    return _module(f"lowering.generated.<{registry.namespace} from {registry.source}>", text)


def load_function_hook(
    entry: Composite, function: Callable[..., Any], target: str, registry: Registry
) -> Callable[..., Any]:
    """Generate and load, in memory, the hook of an entry for a Python function that it catches.

    Raises:
        AllowlistError: the entry does not fit the function.
    """
    with naming(entry):
        text = function_hook_source(entry, function, target, registry)
    module = _module(f"lowering.generated.<{entry.identity} for {target}>", text)
    return module.FUNCTION_HOOKS[registry.key(entry)]  # type: ignore[no-any-return]


_shown_hooks = lru_cache(maxsize=1)(load_hooks)  # `show all` asks for each entry of a registry


def hooks_source(entry: Composite, registry: Registry) -> str:
    """The source of an entry's hooks; empty if none is made before a function is replaced."""
    module, key = _shown_hooks(registry), registry.key(entry)
    tables = (module.BACKEND_HOOKS, module.AUTOGRAD_HOOKS, module.FUNCTION_HOOKS)
    return "\n".join(inspect.getsource(table[key]) for table in tables if key in table)


def load_condition(
    entry: Composite, function: Callable[..., Any], target: str
) -> Callable[..., bool]:
    """An entry's conditions on calls of `function`, as a function that torch.compile can trace.

    Raises:
        AllowlistError: the entry does not fit the function.
    """
    name = f"<conditions of {entry.identity} ({entry.location}) on {target}>"
    with naming(entry):
        text = condition_source(entry, function, target)
    _remember_lines(name, text)
    # The namespace has no `__name__`, because Dynamo would import a module of that name.
    builtins = {"_all": all, "_tuple": tuple, "_isinstance": isinstance, "_list": list}
    namespace: dict[str, Any] = {"torch": torch, **builtins}
    exec(compile(text, name, "exec"), namespace)
    return namespace["matches"]  # type: ignore[no-any-return]


@contextmanager
def naming(entry: Composite) -> Iterator[None]:
    """Name the entry in errors about a function that does not fit it."""
    try:
        yield
    except (UnusableFunctionError, ConditionError) as error:
        raise AllowlistError(f"{entry.location}: {entry.qualified}: {error}") from error


def _module(name: str, text: str) -> ModuleType:
    _remember_lines(name, text)
    module = ModuleType(name)
    module.__file__ = name
    exec(compile(text, name, "exec"), module.__dict__)
    return module


def _remember_lines(name: str, text: str) -> None:
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
