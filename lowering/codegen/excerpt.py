"""The generated hooks of one entry, cut out of the module that holds them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

from composites.python_syntax import parse_module
from composites.registry.model import Composite, Registry
from lowering.codegen.source import function_hook_source, generate


def operator_hooks(entry: Composite, registry: Registry) -> str:
    """The source of an entry's hooks; empty if it has none before a function is replaced."""
    return "\n".join(_functions(generate(registry, registry.source), registry.key(entry)))


def function_hooks(
    entry: Composite, function: Callable[..., Any], target: str, registry: Registry
) -> str:
    """The source of the hook that takes the place of a Python function.

    Raises:
        UnusableFunctionError: the entry names an argument that the function does not have.
        ConditionError: a condition of the entry does not fit the function.
    """
    text = function_hook_source(entry, function, target, registry)
    return "\n".join(_functions(text, registry.key(entry)))


def _functions(module: str, key: str) -> Iterator[str]:
    """The functions that the tables at the end of a generated module have for an entry."""
    body = parse_module(module).body
    names = [
        value.id
        for statement in body
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Dict)
        for name, value in zip(statement.value.keys, statement.value.values, strict=True)
        if isinstance(name, ast.Constant) and name.value == key and isinstance(value, ast.Name)
    ]
    for statement in body:
        if isinstance(statement, ast.FunctionDef) and statement.name in names:
            yield f"{ast.get_source_segment(module, statement)}\n"
