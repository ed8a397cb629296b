"""The code of functions, as their files have it. No module is imported or executed for this."""

import dis
import importlib.util
import inspect
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, PathFinder
from types import CodeType
from typing import Any

Shape = tuple[Any, ...]
Form = tuple[Any, ...]

_KINDS = (
    inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | inspect.CO_GENERATOR
    | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
)  # fmt: skip


def codes_in(module: str) -> dict[str, CodeType]:
    """The code of the functions and classes of a module, as its file has it, by path."""
    spec = place_of(module)
    loader: Any = None if spec is None else spec.loader
    try:
        code = loader.get_code(module)
    except (AttributeError, ImportError, SyntaxError, OSError):  # a loader without code
        return {}
    return {} if code is None else {c.co_qualname: c for c in codes(code)}


def codes(code: CodeType) -> Iterator[CodeType]:
    """Code, and that of the functions and classes in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


def shape(code: CodeType) -> Shape:
    """Names that are quickly read and equal for equal code, so that most functions need no more."""
    return code.co_varnames, code.co_names


def form(code: CodeType) -> Form:
    """The form of a function: its instructions, without names of functions, docstrings, annotations
    and lines. Functions of equal form do the same if their global names mean the same."""
    arguments = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount
    instructions = [(i.opname, constant_form(i.argval)) for i in dis.get_instructions(code)]
    return arguments, code.co_flags & _KINDS, instructions


def constant_form(value: Any) -> Any:
    """A value with its type, since 1, 1.0 and True are three values, as are 0.0 and -0.0."""
    if isinstance(value, CodeType):
        return form(value)
    if isinstance(value, frozenset):  # equal ones can be in another order
        return frozenset(map(constant_form, value))
    return type(value), repr(value)


def place_of(name: str) -> ModuleSpec | None:
    """The place of a module. Unlike `importlib.util.find_spec`, it imports no package."""
    top, *parts = name.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):  # `__main__` and the like have no place
        return None
    for part in parts:
        if spec is None or spec.submodule_search_locations is None:
            return None
        path = list(map(str, spec.submodule_search_locations))  # transformers has paths there
        spec = PathFinder.find_spec(f"{spec.name}.{part}", path)
    return spec
