"""Whether a function is a copy of a written one: the same code, whose names mean the same."""

from __future__ import annotations

import ast
import builtins
import sys
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from lowering.copies import code as codes
from lowering.copies.members import behaviour, member, written_member
from lowering.copies.original import original_function
from lowering.copies.written import (
    Defined,
    Imported,
    Literal,
    WrittenFunction,
    WrittenModule,
    written_function,
)

_MISSING = object()
_Pair = tuple[int, str]


@dataclass(frozen=True, slots=True)
class _Classes:
    """The class whose method is compared, and the one that has the written method."""

    found: type | None
    module: WrittenModule
    path: tuple[str, ...]
    """Empty if the written function is no method."""


def is_copy(function: FunctionType, written: WrittenFunction, owner: type | None = None) -> bool:
    """Whether calling `function` does what calling the written function would.

    The name of a function, its docstring, annotations and decorators do not count: a function that
    a decorator has wrapped has the code of the wrapper. One with variables of an enclosing
    function or class (`super()`) is no copy, and neither is one that imports or writes globals.

    Args:
        owner: the class, if `function` is a method. What its code reads of this class must be a
            copy too.
    """
    path = tuple(written.target.partition(":")[2].split(".")[:-1])
    return _is_copy(function, written, _Classes(owner, written.module, path), frozenset())


def _is_copy(
    function: FunctionType, written: WrittenFunction, classes: _Classes, assumed: frozenset[_Pair]
) -> bool:
    """The same, where the pairs in `assumed` are being compared already, because functions call
    each other."""
    code = function.__code__
    if codes.shape(code) != codes.shape(written.code) or code.co_freevars:
        return False
    if codes.form(code) != written.form or not _same_defaults(function, written):
        return False
    names = codes.global_names(code)
    if names is None:
        return False
    assumed |= {(id(function), written.target)}
    return all(
        _means_same(name, function, written.module, classes, assumed) for name in names
    ) and all(_is_same_member(name, classes, assumed) for name in codes.attribute_names(code))


def _is_same_member(name: str, classes: _Classes, assumed: frozenset[_Pair]) -> bool:
    """Whether both classes have the same code under a name, or none."""
    value = None if classes.found is None else behaviour(classes.found, name)
    expected = written_member(classes.module, classes.path, name) if classes.path else None
    if value is None or expected is None:
        return value is None and expected is None
    found = member(value)
    if found is None or expected.decorators != ((found.kind,) if found.kind else ()):
        return False
    return _is_copy_of(found.function, expected.target, classes, assumed)


def _is_copy_of(
    function: FunctionType, target: str, classes: _Classes, assumed: frozenset[_Pair]
) -> bool:
    if (id(function), target) in assumed:
        return True
    written = written_function(target)
    return written is not None and _is_copy(function, written, classes, assumed)


def _means_same(
    name: str,
    function: FunctionType,
    module: WrittenModule,
    classes: _Classes,
    assumed: frozenset[_Pair],
) -> bool:
    held = function.__globals__.get(name, _MISSING)
    value = vars(builtins).get(name, _MISSING) if held is _MISSING else held
    loaded = sys.modules.get(module.name)
    if value is not _MISSING and loaded is not None and vars(loaded).get(name, _MISSING) is value:
        return True
    meaning = module.names.get(name)
    if meaning is None:
        is_built_in = "*" not in module.names and value is not _MISSING
        return is_built_in and vars(builtins).get(name, _MISSING) is value
    if isinstance(meaning, Literal):
        return value is not _MISSING and _equal(value, meaning.value)
    if isinstance(meaning, Imported):
        if _imported(meaning) is value and value is not _MISSING:
            return True
        target = f"{meaning.module}:{meaning.name}"
    elif isinstance(meaning, Defined):
        target = f"{module.name}:{name}"
    else:
        return False
    value = original_function(value)
    return isinstance(value, FunctionType) and _is_copy_of(value, target, classes, assumed)


def _imported(meaning: Imported) -> Any:
    """What an import gives, if the module is loaded."""
    module = sys.modules.get(meaning.module)
    if module is None or meaning.name is None:
        return module if module is not None else _MISSING
    held = vars(module).get(meaning.name, _MISSING)
    if held is _MISSING:
        return sys.modules.get(f"{meaning.module}.{meaning.name}", _MISSING)
    return held


def _same_defaults(function: FunctionType, written: WrittenFunction) -> bool:
    arguments = written.arguments
    if arguments is None:
        return False
    by_name = {
        parameter.arg: default
        for parameter, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if default is not None
    }
    positional, by_keyword = function.__defaults__ or (), function.__kwdefaults__ or {}
    if len(positional) != len(arguments.defaults) or by_keyword.keys() != by_name.keys():
        return False
    values = [*positional, *by_keyword.values()]
    nodes = [*arguments.defaults, *(by_name[name] for name in by_keyword)]
    return all(_is_value(v, n, written.module) for v, n in zip(values, nodes, strict=True))


def _is_value(value: Any, node: ast.expr, module: WrittenModule) -> bool:
    """Whether a value is that of an expression: a constant, or a name such as `torch.float32`."""
    try:
        return _equal(value, ast.literal_eval(node))
    except ValueError:
        pass
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    meaning = module.names.get(node.id) if isinstance(node, ast.Name) else None
    if isinstance(meaning, Literal):
        return not parts and _equal(value, meaning.value)
    if not isinstance(meaning, Imported):
        return False
    found = _imported(meaning)
    for part in reversed(parts):
        found = getattr(found, part, _MISSING)
    return found is value


def _equal(one: Any, other: Any) -> bool:
    return type(one) is type(other) and repr(one) == repr(other)
