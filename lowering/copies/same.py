"""Copies of a written function: functions with the same syntax tree, whose names mean the same.

Both are compared as their files have them. What is loaded must then still be what its file says,
for a program may have replaced a function or a helper of it.
"""

from __future__ import annotations

import ast
import builtins
import sys
from types import FunctionType
from typing import Any

from lowering.copies.members import behaviour, member, written_member
from lowering.copies.original import original_function
from lowering.copies.written import Class, WrittenFunction, WrittenModule, written_function

_MISSING = object()
_Pairs = frozenset[tuple[str, str]]


def is_copy(function: FunctionType, written: WrittenFunction, owner: type | None = None) -> bool:
    """Return whether calling `function` does what calling the written function would.

    The name of a function, its docstring, annotations and decorators do not count: a function that
    a decorator has wrapped has the code of the wrapper. One with variables of an enclosing
    function or class (`super()`) is no copy, and neither is one that imports or writes globals.

    Args:
        owner: the class, if `function` is a method. What its code reads of this class must be a
            copy too.
    """
    mine = written_function(f"{function.__module__}:{function.__qualname__}")
    if mine is None:
        return False
    classes = mine.owner, written.owner
    return _same(mine, written, classes, frozenset()) and _is_loaded(function, mine, owner, set())


def _same(
    one: WrittenFunction, other: WrittenFunction, classes: tuple[Class, Class], assumed: _Pairs
) -> bool:
    """Return whether two functions do the same in methods of these classes. The pairs in `assumed`
    are being compared already, because functions call each other."""
    if (one.target, other.target) in assumed:
        return True
    names = one.global_names
    if one.form != other.form or names is None or names != other.global_names:
        return False
    assumed |= {(one.target, other.target)}
    return (
        _same_defaults(one, other)
        and all(_means_same(name, one, other, classes, assumed) for name in names)
        and all(_is_same_member(name, classes, assumed) for name in one.attribute_names)
    )


def _is_same_member(name: str, classes: tuple[Class, Class], assumed: _Pairs) -> bool:
    """Return whether both classes have the same code under a name, or none."""
    one, other = (written_member(*owner, name) for owner in classes)
    if one is None or other is None:
        return one is other
    return one[0] == other[0] and _same(one[1], other[1], classes, assumed)


def _means_same(
    name: str,
    one: WrittenFunction,
    other: WrittenFunction,
    classes: tuple[Class, Class],
    assumed: _Pairs,
) -> bool:
    (place, bound), (other_place, expected) = (f.module.resolved(name) for f in (one, other))
    if place == other_place:
        starred = "*" in one.module.names or "*" in other.module.names
        return bool(place) or (hasattr(builtins, name) and not starred)
    if isinstance(bound, ast.expr) and isinstance(expected, ast.expr):
        value = _value(one.module, bound)
        return value is not None and value == _value(other.module, expected)
    if isinstance(bound, ast.FunctionDef) and isinstance(expected, ast.FunctionDef):
        helper, named = written_function(place), written_function(other_place)
        return helper is not None and named is not None and _same(helper, named, classes, assumed)
    return False


def _same_defaults(one: WrittenFunction, other: WrittenFunction) -> bool:
    values, expected = (
        [
            (default is None, default and _value(function.module, default))
            for default in (*function.node.args.defaults, *function.node.args.kw_defaults)
        ]
        for function in (one, other)
    )
    return values == expected and (False, None) not in values


def _value(module: WrittenModule, node: ast.expr) -> Any:
    """The value of an expression: a constant with its type, or the place of `torch.float32`. None
    if that is not known."""
    name, *parts = ast.unparse(node).split(".")
    place, bound = module.resolved(name) if name.isidentifier() else ("", None)
    if isinstance(bound, str):
        return place, *parts
    assigned = bound if isinstance(bound, ast.expr) and not parts else node
    try:
        return _constant(ast.literal_eval(assigned))
    except (TypeError, ValueError):
        return None


def _constant(value: Any) -> tuple[type, str]:
    """A constant with its type: 1, 1.0 and True are three values, as are 0.0 and -0.0."""
    return type(value), repr(value)


def _is_loaded(
    function: Any, written: WrittenFunction | None, owner: type | None, seen: set[str]
) -> bool:
    """Return whether a loaded function is what its file says, and so is all that it calls."""
    if not isinstance(function, FunctionType) or written is None:
        return False
    if written.target in seen:
        return True
    seen.add(written.target)
    code = function.__code__
    place = function.__module__, code.co_name, code.co_firstlineno, code.co_freevars
    return (
        place == (written.module.name, written.node.name, written.first_line, ())
        and all(
            _holds(function.__globals__.get(name, _MISSING), name, written.module, owner, seen)
            for name in written.global_names or ()
        )
        and (
            owner is None
            or all(
                _has_member(owner, name, written.owner, seen) for name in written.attribute_names
            )
        )
    )


def _holds(
    value: Any, name: str, module: WrittenModule, owner: type | None, seen: set[str]
) -> bool:
    """Return whether a global name has the value that the file of its module says."""
    place, bound = module.resolved(name)
    value = original_function(value)
    if isinstance(bound, ast.FunctionDef):
        return _is_loaded(value, written_function(place), owner, seen)
    if isinstance(bound, str):
        source, _, imported = bound.partition(":")
        expected: Any = sys.modules.get(source, _MISSING)
        if imported:  # what the module has under this name, or a submodule
            submodule = sys.modules.get(f"{source}.{imported}", _MISSING)
            expected = getattr(expected, "__dict__", {}).get(imported, submodule)
        return value is original_function(expected)
    if isinstance(bound, ast.expr) and (constant := _value(module, bound)) is not None:
        return bool(constant == _constant(value))
    return (value is _MISSING) == (not place)


def _has_member(owner: type, name: str, written_in: Class, seen: set[str]) -> bool:
    """Return whether a class has the code under a name that its file says."""
    written, value = written_member(*written_in, name), behaviour(owner, name)
    if written is None or value is None:
        return written is None and value is None
    loaded = member(value)
    return (
        loaded is not None
        and loaded[0] == written[0]
        and _is_loaded(loaded[1], written[1], owner, seen)
    )
