"""Methods and properties that a method's code reads: in a class, and as the file of a class has
them.

A call of a method depends on them, and a subclass may override them. torch.nn.Module's own do not
count, because they are the same everywhere. Data does not count either: what an object holds is
compared by nobody, and entries read it.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from types import CodeType, FunctionType
from typing import Any

from lowering.copies.original import original_function
from lowering.copies.written import WrittenFunction, WrittenModule, bindings, written_module


def behaviour(owner: type, name: str) -> Any:
    """What a class has under a name, as a class that defines it holds it; None if that is data, is
    torch.nn.Module's, or is not there."""
    for base in owner.__mro__:
        if name in vars(base):
            value = vars(base)[name]
            is_data = not callable(value) and not hasattr(type(value), "__get__")
            return None if is_data or _is_root(base) else value
    return None


def member(value: Any) -> tuple[str, FunctionType] | None:
    """The function of what `behaviour` gives, and the decorator that makes it: `property`,
    `staticmethod`, `classmethod`, or nothing. None if there is no such function."""
    if isinstance(value, property):
        others = (value.fset, value.fdel)
        kind, function = "property", value.fget if others == (None, None) else None
    elif isinstance(value, staticmethod | classmethod):
        kind, function = type(value).__name__, value.__func__
    else:
        kind, function = "", value
    function = original_function(function)
    return (kind, function) if isinstance(function, FunctionType) else None


def called_members(function: FunctionType, owner: type) -> Mapping[str, Any]:
    """The members of a class that calling one of its methods may reach through `self`.

    A name of an attribute counts wherever the code reads it, since the object may have other names
    than `self`.
    """
    found: dict[str, Any] = {}
    waiting = [function]
    while waiting:
        for name in sorted(_names(waiting.pop().__code__) - found.keys()):
            value = behaviour(owner, name)
            if value is None:
                continue
            found[name] = value
            inside = member(value)
            waiting += () if inside is None else inside[1:]
    return found


def overridden(members: Mapping[str, Any], owner: type) -> str | None:
    """The first of these members for which a class has something else."""
    for name, expected in members.items():
        # A member without replacements of this project, which come and go.
        if original_function(behaviour(owner, name)) is not original_function(expected):
            return name
    return None


def written_member(
    module: WrittenModule, path: Sequence[str], name: str
) -> tuple[str, WrittenFunction] | None:
    """The `def` that the class at `path` has under a name, in its file or those of its bases, and
    its decorators."""
    node = module.defined(path)
    if not isinstance(node, ast.ClassDef):
        return None
    bound = [binding for n, binding in bindings(node.body, "") if n == name]
    if bound:
        target = f"{module.name}:{'.'.join((*path, name))}"
        defined = bound[0] if len(bound) == 1 else None
        if not isinstance(defined, ast.FunctionDef):
            return None
        kind = " ".join(map(ast.unparse, defined.decorator_list))
        return kind, WrittenFunction(target, module, defined)
    for base in node.bases:
        place = module.resolved(base.id)[0] if isinstance(base, ast.Name) else ""
        source, _, inherited = place.partition(":")
        of_base = written_module(source) if inherited else None  # None for those of torch
        found = None if of_base is None else written_member(of_base, (inherited,), name)
        if found is not None:
            return found
    return None


def _names(code: CodeType) -> set[str]:
    """The names of attributes, and of globals, in code."""
    inside = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*map(_names, inside))


def _is_root(base: type) -> bool:
    return base is object or (
        base.__module__ == "torch.nn.modules.module" and base.__qualname__ == "Module"
    )
