"""Copies of a written function: functions with the same instructions, whose names mean the same.

The written function is as its file has it, and no module is imported for it. The other function is
loaded: its names mean what its module and its class have now, since a program may have replaced a
function or a helper of it.
"""

from __future__ import annotations

import ast
import builtins
import dis
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any

from lowering.copies.members import behaviour, member
from lowering.copies.original import original_function
from lowering.copies.written import (
    WrittenFunction,
    WrittenModule,
    codes,
    constant_form,
    form,
    written_function,
    written_member,
)

_MISSING = object()
_GLOBALS = ("LOAD_GLOBAL", "LOAD_NAME")
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "DELETE_ATTR")
_EFFECTS = ("IMPORT_NAME", "STORE_GLOBAL", "DELETE_GLOBAL")


def is_copy(function: FunctionType, written: WrittenFunction, owner: type | None = None) -> bool:
    """Return whether calling `function` does what calling the written function would.

    The name of a function, its docstring, annotations and decorators do not count: a function that
    a decorator has wrapped has the code of the wrapper. One with variables of an enclosing
    function or class (`super()`) is not a copy, and neither is one that imports or writes globals.

    Args:
        owner: the class, if `function` is a method. What its code reads of this class must be a
            copy too.
    """
    return _Comparison(owner, written.owner).is_same(function, written)


@dataclass(frozen=True, slots=True)
class _Comparison:
    """The comparison of methods of two classes, or of two functions."""

    owner: type | None
    written_owner: str
    assumed: set[tuple[FunctionType, str]] = field(default_factory=set)
    """The functions that are being compared already, because functions call each other."""

    def is_same(self, function: Any, written: WrittenFunction | None) -> bool:
        """Return whether a loaded function does what a written one does."""
        if not isinstance(function, FunctionType) or written is None:
            return False
        if (function, written.target) in self.assumed:
            return True
        self.assumed.add((function, written.target))
        code, variables = function.__code__, function.__globals__
        return (
            not code.co_freevars
            and not any(_named_by(code, _EFFECTS))
            and form(code) == form(written.code)
            and self._has_defaults(function, written)
            and all(
                self._means(variables.get(name, _MISSING), written.module, name)
                for name in _named_by(code, _GLOBALS)
            )
            and all(map(self._has_member, _named_by(code, _ATTRIBUTES)))
        )

    def _has_defaults(self, function: FunctionType, written: WrittenFunction) -> bool:
        arguments = written.node.args
        keywords = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        expected: dict[Any, ast.expr] = dict(enumerate(arguments.defaults))
        expected |= {keyword.arg: node for keyword, node in keywords if node is not None}
        values: dict[Any, Any] = dict(enumerate(function.__defaults__ or ()))
        values |= function.__kwdefaults__ or {}
        return values.keys() == expected.keys() and all(
            _has_value(value, written.module, expected[key]) for key, value in values.items()
        )

    def _means(self, value: Any, module: WrittenModule, name: str) -> bool:
        """Return whether the value of a global name is the one that a module's file gives it."""
        places = list(module.places(name))
        if value is _MISSING or not places:
            is_builtin = hasattr(builtins, name) and "*" not in module.names
            return value is _MISSING and not places and is_builtin
        value = original_function(value)
        for owner, bound, binding in places:
            if value is _loaded(f"{owner.name}:{bound}") or value is _loaded(binding):
                return True
        if isinstance(binding, ast.FunctionDef):
            return self.is_same(value, written_function(f"{owner.name}:{bound}"))
        return isinstance(binding, ast.expr) and _has_value(value, owner, binding)

    def _has_member(self, name: str) -> bool:
        """Return whether both classes have the same code under a name, or none."""
        written = written_member(self.written_owner, name)
        value = None if self.owner is None else behaviour(self.owner, name)
        if written is None or value is None:
            return written is None and value is None
        decorator, function = member(value) or ("", None)
        return decorator == written[0] and self.is_same(function, written[1])


def _named_by(code: CodeType, instructions: Sequence[str]) -> set[str]:
    """The names in these instructions of code, and of the functions in it."""
    within = (instruction for inner in codes(code) for instruction in dis.get_instructions(inner))
    return {i.argval for i in within if i.opname in instructions}


def _has_value(value: Any, module: WrittenModule, node: ast.expr) -> bool:
    """Return whether a value is that of an expression in a module's file: a constant, a name of
    one, or the place of `torch.float32`."""
    name, *parts = ast.unparse(node).split(".")
    binding = module.names.get(name)
    if isinstance(binding, str):
        expected = _loaded(binding)
        for part in parts:
            expected = getattr(expected, part, _MISSING)
        return value is expected
    assigned = binding if isinstance(binding, ast.expr) and not parts else node
    try:
        return bool(constant_form(value) == constant_form(ast.literal_eval(assigned)))
    except (TypeError, ValueError):
        return False


def _loaded(place: object) -> Any:
    """The module `package.module` that is imported, or what it has as `package.module:name`: a
    value or a submodule."""
    if not isinstance(place, str):
        return _MISSING
    source, _, name = place.partition(":")
    module = sys.modules.get(source, _MISSING)
    if not name:
        return module
    submodule = sys.modules.get(f"{source}.{name}", _MISSING)
    return original_function(getattr(module, "__dict__", {}).get(name, submodule))
