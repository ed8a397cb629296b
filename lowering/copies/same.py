"""Whether a function is a copy of a written one: the same code, whose names mean the same."""

from __future__ import annotations

import ast
import builtins
import sys
from types import FunctionType
from typing import Any

from lowering.copies import code as codes
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


def is_copy(
    function: FunctionType, written: WrittenFunction, assumed: frozenset[_Pair] = frozenset()
) -> bool:
    """Whether calling `function` does what calling the written function would.

    The name of a function, its docstring, annotations and decorators do not count: a function that
    a decorator has wrapped has the code of the wrapper. One with variables of an enclosing
    function or class (`super()`) is no copy, and neither is one that imports or writes globals.

    Args:
        assumed: pairs that are being compared already, because functions call each other.
    """
    code = function.__code__
    if codes.shape(code) != codes.shape(written.code) or code.co_freevars:
        return False
    if codes.form(code) != written.form or not _same_defaults(function, written):
        return False
    names = codes.global_names(code)
    if names is None:
        return False
    assumed |= {(id(function), written.target)}
    return all(_means_same(name, function, written.module, assumed) for name in names)


def _means_same(
    name: str, function: FunctionType, module: WrittenModule, assumed: frozenset[_Pair]
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
    if not isinstance(value, FunctionType):
        return False
    if (id(value), target) in assumed:
        return True
    written = written_function(target)
    return written is not None and is_copy(value, written, assumed)


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
