"""Methods and properties that a method's code reads: in a class, and as the file of a class has
them.

A call of a method depends on them, and a subclass may override them. torch.nn.Module's own do not
count, because they are the same everywhere. Data does not count either: what an object holds is
compared by nobody, and entries read it.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from lowering.copies import code as codes
from lowering.copies.original import original_function
from lowering.copies.written import (
    Defined,
    Imported,
    WrittenModule,
    bindings,
    written_module,
)


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a class whose code can be compared."""

    kind: str
    """The decorator that makes it: `property`, `staticmethod`, `classmethod`, or nothing."""
    function: FunctionType


@dataclass(frozen=True, slots=True)
class WrittenMember:
    """A member as the file of a class has it."""

    target: str
    """`package.module:Class.method`"""
    decorators: tuple[str, ...]


def behaviour(owner: type, name: str) -> Any:
    """What a class has under a name, as a class that defines it holds it; None if that is data, is
    torch.nn.Module's, or is not there."""
    for base in owner.__mro__:
        if name in vars(base):
            value = vars(base)[name]
            is_data = not callable(value) and not hasattr(type(value), "__get__")
            return None if is_data or _is_root(base) else value
    return None


def member(value: Any) -> Member | None:
    """What `behaviour` gives, if its code can be compared."""
    if isinstance(value, property):
        others = (value.fset, value.fdel)
        kind, function = "property", value.fget if others == (None, None) else None
    elif isinstance(value, staticmethod | classmethod):
        kind, function = type(value).__name__, value.__func__
    else:
        kind, function = "", value
    function = original_function(function)
    return Member(kind, function) if isinstance(function, FunctionType) else None


def called_members(function: FunctionType, owner: type) -> Mapping[str, Any]:
    """The members of a class that calling one of its methods may reach through `self`.

    A name of an attribute counts wherever the code reads it, since the object may have other names
    than `self`.
    """
    found: dict[str, Any] = {}
    waiting = [function]
    while waiting:
        for name in sorted(codes.attribute_names(waiting.pop().__code__) - found.keys()):
            value = behaviour(owner, name)
            if value is None:
                continue
            found[name] = value
            inside = member(value)
            waiting += () if inside is None else (inside.function,)
    return found


def overridden(members: Mapping[str, Any], owner: type) -> str | None:
    """The first of these members for which a class has something else."""
    for name, expected in members.items():
        # A member without replacements of this project, which come and go.
        if original_function(behaviour(owner, name)) is not original_function(expected):
            return name
    return None


def written_member(module: WrittenModule, path: Sequence[str], name: str) -> WrittenMember | None:
    """What the class at `path` has under a name as a `def`, in its file or those of its bases."""
    node = _class(module, path)
    if node is None:
        return None
    defined = [s for s in node.body if isinstance(s, ast.FunctionDef) and s.name == name]
    if defined and all(isinstance(m, Defined) for n, m in bindings(node.body, "") if n == name):
        decorators = tuple(ast.unparse(d) for d in defined[-1].decorator_list)
        return WrittenMember(f"{module.name}:{'.'.join((*path, name))}", decorators)
    if any(n == name for n, _ in bindings(node.body, "")):
        return None
    for base in node.bases:
        place = _base(module, base)
        inherited = None if place is None else written_member(*place, name)
        if inherited is not None:
            return inherited
    return None


def _is_root(base: type) -> bool:
    return base is object or (
        base.__module__ == "torch.nn.modules.module" and base.__qualname__ == "Module"
    )


def _class(module: WrittenModule, path: Sequence[str]) -> ast.ClassDef | None:
    body: Sequence[ast.stmt] = module.body
    node: ast.ClassDef | None = None
    for part in path:
        owners = [s for s in body if isinstance(s, ast.ClassDef) and s.name == part]
        node = owners[0] if len(owners) == 1 else None
        body = () if node is None else node.body
    return node


def _base(module: WrittenModule, base: ast.expr) -> tuple[WrittenModule, tuple[str, ...]] | None:
    """Where a base class is written; None for those of torch, and those that are not found."""
    if not isinstance(base, ast.Name):
        return None
    if _class(module, (base.id,)) is not None:
        return module, (base.id,)
    meaning = module.names.get(base.id)
    if not isinstance(meaning, Imported) or meaning.name is None:
        return None
    if meaning.module.partition(".")[0] == "torch":
        return None
    imported = written_module(meaning.module)
    return None if imported is None else _base(imported, ast.Name(meaning.name))
