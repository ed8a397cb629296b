"""Methods and properties of a class that a method's code reads.

A call of a method depends on them, and a subclass may override them. The members of torch.nn.Module
do not count, because they are the same everywhere. Data does not count either: entries read the
values of an object, and nothing compares them.
"""

from collections.abc import Mapping
from types import FunctionType
from typing import Any

from lowering.copies.codes import codes
from lowering.copies.original import original_function


def in_class(owner: type, name: str, default: Any = None) -> Any:
    """The value of a name in the namespace of a class, or of the first base that has the name."""
    return next((vars(base)[name] for base in owner.__mro__ if name in vars(base)), default)


def behaviour(owner: type, name: str) -> Any:
    """The function or descriptor that a class or its first base defines under a name; None if the
    name is undefined, holds data, or is defined by torch.nn.Module."""
    for base in owner.__mro__:
        if name in vars(base):
            value = vars(base)[name]
            is_data = not callable(value) and not hasattr(type(value), "__get__")
            return None if is_data or _is_root(base) else value
    return None


def member(value: Any) -> tuple[str, FunctionType] | None:
    """The function of a member that `behaviour` returns, and the decorator that makes it:
    `property`, `staticmethod`, `classmethod`, or nothing. None if there is no such function."""
    if isinstance(value, property):
        accessors = (value.fset, value.fdel)
        kind, function = "property", value.fget if accessors == (None, None) else None
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
    members: dict[str, Any] = {}
    waiting = [function]
    while waiting:
        names = {name for code in codes(waiting.pop().__code__) for name in code.co_names}
        for name in sorted(names - members.keys()):
            value = behaviour(owner, name)
            if value is None:
                continue
            members[name] = value
            inside = member(value)
            waiting += () if inside is None else inside[1:]
    return members


def overridden(members: Mapping[str, Any], owner: type) -> str | None:
    """The first of `members` that a class overrides; None if it overrides none."""
    for name, expected in members.items():
        # Compare originals: replacements of this project are installed and removed at any time.
        if original_function(behaviour(owner, name)) is not original_function(expected):
            return name
    return None


def _is_root(base: type) -> bool:
    return base is object or (
        base.__module__ == "torch.nn.modules.module" and base.__qualname__ == "Module"
    )
