"""Looking for copies in the modules of packages."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import CodeType, FunctionType, ModuleType
from typing import Any

from composites.errors import UnusableFunctionError
from composites.functions import find_function
from composites.registry.model import Composite
from lowering.copies.codes import Shape, codes_in, form, shape
from lowering.copies.original import original_function
from lowering.copies.same import is_copy

log = logging.getLogger("composites")


@dataclass(frozen=True, slots=True)
class Copy:
    """A function that is a copy of functions that entries name."""

    target: str
    """`package.module:Class.method`"""
    entries: tuple[Composite, ...]
    """The entries that catch it, in the order in which they are tried."""


@dataclass(frozen=True)
class Search:
    """A search for copies of the functions that entries name."""

    entries: Sequence[Composite]
    """The entries, in the order in which they are tried. Entries without `copies` have none."""

    @cached_property
    def packages(self) -> frozenset[str]:
        return frozenset(package for entry in self.entries for package in entry.copies)

    def in_module(self, module: ModuleType) -> Iterator[Copy]:
        """The copies that a module defines, or holds under a name of its own.

        A function that an entry names is one of its copies too.
        """
        for path, owner, function in _functions(module):
            entries = self.catching(module.__name__, owner, function)
            if entries:
                yield Copy(f"{module.__name__}:{path}", entries)

    def catching(self, module: str, owner: Any, function: Any) -> tuple[Composite, ...]:
        """The entries that catch a function of a module as a copy. Its owner is a class, or the
        module."""
        if not isinstance(function, FunctionType) or not is_in(module, self.packages):
            return ()
        code, owning = function.__code__, owner if isinstance(owner, type) else None
        catching = (
            entry
            for entry, target, named in self._named.get(shape(code), ())
            if is_in(module, entry.copies)
            and form(named) == form(code)
            and _is_copy(function, target, owning)
        )
        return tuple(dict.fromkeys(catching))  # an entry may name a code twice

    @cached_property
    def _named(self) -> dict[Shape, list[tuple[Composite, str, CodeType]]]:
        """The functions that entries name, with the code in their files, by the code's `shape`,
        which is quickly compared."""
        named: dict[Shape, list[tuple[Composite, str, CodeType]]] = {}
        for entry in self.entries:
            for target in entry.functions if entry.copies else ():
                module, _, path = target.partition(":")
                code = codes_in(module).get(path)
                if code is None:
                    log.info("%s is not one function in a file", target)
                else:
                    named.setdefault(shape(code), []).append((entry, target, code))
        return named


def _is_copy(function: FunctionType, target: str, owner: type | None) -> bool:
    """Return whether a function is a copy of the function `target` with the same code. The module
    of `target` is imported."""
    try:
        named = original_function(find_function(target))
    except UnusableFunctionError:
        return False
    return isinstance(named, FunctionType) and is_copy(function, named, owner, _find_class(target))


def _find_class(target: str) -> type | None:
    """Find the class of a method `package.module:Class.method`."""
    owner, dot, _ = target.rpartition(".")
    value = find_function(owner) if dot and ":" in owner else None
    return value if isinstance(value, type) else None


def is_in(module: str, packages: Iterable[str]) -> bool:
    """Return whether a module is one of the packages, or inside one."""
    return f"{module}.".startswith(tuple(f"{package}." for package in packages))


def _functions(module: ModuleType) -> Iterator[tuple[str, type | None, FunctionType]]:
    """The functions of a module, and those of its classes with their class, without replacements of
    this project."""
    name, top = module.__name__, module.__name__.partition(".")[0]
    for path, value in list(vars(module).items()):
        if isinstance(value, FunctionType):
            # A module may hold a function that it imported before the function was replaced.
            if (value.__module__ or "").partition(".")[0] == top:
                yield path, None, original_function(value)
        elif isinstance(value, type) and value.__module__ == name and path == value.__qualname__:
            for attribute, member in list(vars(value).items()):
                if isinstance(member, FunctionType):
                    yield f"{path}.{attribute}", value, original_function(member)
