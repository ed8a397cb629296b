"""The code of functions, read from their files. No module is imported or executed for this."""

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
    """The code of the functions and classes in a module's file, by path."""
    spec = find_spec(module)
    loader: Any = None if spec is None else spec.loader
    try:
        code = loader.get_code(module)
    except (AttributeError, ImportError, SyntaxError, OSError):  # a loader without code
        return {}
    return {} if code is None else {c.co_qualname: c for c in codes(code)}


def codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object, and the code objects of the functions and classes in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


def shape(code: CodeType) -> Shape:
    """Names in a function's code, equal for equal code. Most functions differ in them already."""
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
    if isinstance(value, frozenset):  # equal sets can be in another order
        return frozenset(map(constant_form, value))
    return type(value), repr(value)


def find_spec(name: str) -> ModuleSpec | None:
    """Find the spec of a module. Unlike `importlib.util.find_spec`, this imports no package."""
    top, *parts = name.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):  # `__main__` and the like have no spec
        return None
    for part in parts:
        if spec is None or spec.submodule_search_locations is None:
            return None
        path = list(map(str, spec.submodule_search_locations))  # of transformers, `Path` objects
        spec = PathFinder.find_spec(f"{spec.name}.{part}", path)
    return spec
