"""Code objects, compared by what they do: without names of functions, docstrings, annotations,
comments, lines and files."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Iterator
from types import CodeType
from typing import Any

Shape = tuple[Any, ...]
Form = tuple[Any, ...]

_FLAGS = (
    inspect.CO_OPTIMIZED
    | inspect.CO_NEWLOCALS
    | inspect.CO_VARARGS
    | inspect.CO_VARKEYWORDS
    | inspect.CO_GENERATOR
    | inspect.CO_COROUTINE
    | inspect.CO_ASYNC_GENERATOR
)
_JUMPS = frozenset((*dis.hasjrel, *dis.hasjabs))
_WITHOUT_EFFECT = ("NOP", "EXTENDED_ARG")
_READS = ("LOAD_GLOBAL", "LOAD_NAME")
_ATTRIBUTES = ("_ATTR", "_METHOD")
_UNCOMPARED = ("STORE_GLOBAL", "DELETE_GLOBAL", "IMPORT_NAME")


def shape(code: CodeType) -> Shape:
    """What is quickly read and equal for equal code, so that most functions need no more."""
    return code.co_varnames, code.co_names


def form(code: CodeType) -> Form:
    """A value that is equal for two code objects if they do the same, given that their global
    names mean the same."""
    kept = [i for i in dis.get_instructions(code) if i.opname not in _WITHOUT_EFFECT]
    # A jump to what was left out is one to the next instruction that was kept.
    place, places = 0, {}
    for instruction in dis.get_instructions(code):
        places[instruction.offset] = place
        place += instruction.opname not in _WITHOUT_EFFECT
    return (
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
        code.co_flags & _FLAGS,
        code.co_varnames,
        code.co_cellvars,
        code.co_freevars,
        getattr(code, "co_exceptiontable", b""),
        tuple(
            (i.opname, places[i.argval] if i.opcode in _JUMPS else _constant(i.argval))
            for i in kept
        ),
    )


def global_names(code: CodeType) -> set[str] | None:
    """The global and built-in names that code reads; None if it imports, or writes globals."""
    names: set[str] = set()
    for instruction in _instructions(code):
        if instruction.opname in _UNCOMPARED:
            return None
        if instruction.opname in _READS:
            names.add(instruction.argval)
    return names


def attribute_names(code: CodeType) -> set[str]:
    """The names of attributes and methods that code uses, of whatever object."""
    return {i.argval for i in _instructions(code) if i.opname.endswith(_ATTRIBUTES)}


def _instructions(code: CodeType) -> Iterator[dis.Instruction]:
    for instruction in dis.get_instructions(code):
        yield instruction
        if isinstance(instruction.argval, CodeType):
            yield from _instructions(instruction.argval)


def _constant(value: Any) -> Any:
    """A constant with its type: 1, 1.0 and True are three values, as are 0.0 and -0.0."""
    if isinstance(value, CodeType):
        return form(value)
    if isinstance(value, tuple):
        return tuple(map(_constant, value))
    if isinstance(value, frozenset):
        return frozenset(map(_constant, value))
    return type(value), repr(value)
