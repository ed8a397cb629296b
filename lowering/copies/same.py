"""Copies of a function: functions with the same instructions, whose names mean the same.

Both functions are loaded, and names are looked up in their modules and classes as they are now,
since a program may have replaced a function or a helper of it.
"""

import ast
import builtins
import dis
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any

from lowering.copies.codes import codes, constant_form, form
from lowering.copies.members import behaviour, member
from lowering.copies.original import original_function

_GLOBALS = ("LOAD_GLOBAL", "LOAD_NAME")
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "DELETE_ATTR")
_EFFECTS = ("IMPORT_NAME", "STORE_GLOBAL", "DELETE_GLOBAL")


def is_copy(
    function: FunctionType,
    named: FunctionType,
    owner: type | None = None,
    named_owner: type | None = None,
) -> bool:
    """Return whether a call of `function` does the same as a call of `named`.

    The name of a function, its docstring, annotations and decorators do not count: a function that
    a decorator has wrapped has the code of the wrapper.

    Args:
        owner, named_owner: the classes of methods. Members of one class that the code reads must be
            copies of the members of the other.
    """
    return _Comparison(owner, named_owner).is_same(function, named)


def is_comparable(code: CodeType) -> bool:
    """Return whether copies of a function can be recognized by its code. They cannot if the code
    uses variables of an enclosing function or class (`super()`), imports, or writes globals."""
    return not code.co_freevars and not _named_by(code, _EFFECTS)


@dataclass(frozen=True, slots=True)
class _Comparison:
    """The comparison of methods of two classes, or of two functions."""

    owner: type | None
    named_owner: type | None
    assumed: set[tuple[FunctionType, FunctionType]] = field(default_factory=set)
    """The functions that are being compared already, because functions call each other."""

    def is_same(self, function: FunctionType, named: FunctionType) -> bool:
        """Return whether two functions do the same."""
        if (function, named) in self.assumed:
            return True
        self.assumed.add((function, named))
        code, variables, targets = function.__code__, function.__globals__, named.__globals__
        return (
            is_comparable(code)
            and form(code) == form(named.__code__)
            and self._have_same_values(_defaults(function), _defaults(named))
            and all(
                self._is_same_value(_global(variables, name), _global(targets, name))
                for name in _named_by(code, _GLOBALS)
            )
            and all(map(self._has_member, _named_by(code, _ATTRIBUTES)))
        )

    def _have_same_values(self, values: dict[Any, Any], named_values: dict[Any, Any]) -> bool:
        return values.keys() == named_values.keys() and all(
            self._is_same_value(value, named_values[key]) for key, value in values.items()
        )

    def _is_same_value(self, value: Any, other: Any) -> bool:
        """Return whether two values are one object, copies of a function, or equal constants."""
        value, other = original_function(value), original_function(other)
        if value is other:
            return True
        if isinstance(value, FunctionType) and isinstance(other, FunctionType):
            return self.is_same(value, other)
        return constant_form(value) == constant_form(other) and _is_constant(value)

    def _has_member(self, name: str) -> bool:
        """Return whether both classes have the same code under a name, or both have none."""
        value, other = (
            None if owner is None else behaviour(owner, name)
            for owner in (self.owner, self.named_owner)
        )
        first, second = member(value), member(other)
        if first is None or second is None:  # not functions, or only one class has the name
            return value is other
        return first[0] == second[0] and self.is_same(first[1], second[1])


def _global(variables: Mapping[str, Any], name: str) -> Any:
    return variables.get(name, getattr(builtins, name, None))


def _defaults(function: FunctionType) -> dict[Any, Any]:
    """The defaults of positional parameters by index, and of keyword-only parameters by name."""
    return dict(enumerate(function.__defaults__ or ())) | (function.__kwdefaults__ or {})


def _named_by(code: CodeType, instructions: Sequence[str]) -> set[str]:
    """The names that the given instructions use in a code object and in the functions inside it."""
    within = (instruction for inner in codes(code) for instruction in dis.get_instructions(inner))
    return {i.argval for i in within if i.opname in instructions}


def _is_constant(value: Any) -> bool:
    try:
        ast.literal_eval(repr(value))
    except (ValueError, SyntaxError):
        return False
    return True
