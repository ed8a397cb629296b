"""Looking for copies in the modules of packages."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from types import FunctionType, ModuleType
from typing import Any

from composites.errors import UnusableFunctionError
from composites.functions import import_module
from composites.registry.model import Composite
from lowering.copies.original import original_function
from lowering.copies.same import is_copy
from lowering.copies.written import (
    Shape,
    codes_in,
    module_names,
    shape,
    written_function,
)

log = logging.getLogger("composites")


@dataclass(frozen=True, slots=True)
class Copy:
    """A function that is a copy of functions that entries name."""

    target: str
    """`package.module:Class.method`"""
    entries: tuple[Composite, ...]
    """The entries that catch it, in the order in which they are asked."""


@dataclass(frozen=True)
class Search:
    """The search for copies of what some entries name."""

    entries: tuple[Composite, ...]
    """The entries, in the order in which they are asked."""

    @classmethod
    def of(cls, entries: Iterable[Composite]) -> Search:
        return cls(tuple(entry for entry in entries if entry.copies))

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

    def candidates(self) -> Iterator[str]:
        """The modules of the packages whose files may have the code of a named function. They are
        not imported."""
        for name in sorted({name for package in self.packages for name in module_names(package)}):
            if not self._named.keys().isdisjoint(map(shape, codes_in(name).values())):
                yield name

    def catching(self, module: str, owner: Any, function: Any) -> tuple[Composite, ...]:
        """The entries that catch a function of a module as a copy. Its owner is a class, or the
        module."""
        if not isinstance(function, FunctionType) or not is_in(module, self.packages):
            return ()
        owning = owner if isinstance(owner, type) else None
        catching = (
            entry
            for entry, target in self._named.get(shape(function.__code__), ())
            if is_in(module, entry.copies)
            and (written := written_function(target)) is not None
            and is_copy(function, written, owning)
        )
        return tuple(dict.fromkeys(catching))  # an entry may name several of the same code

    @cached_property
    def _named(self) -> dict[Shape, list[tuple[Composite, str]]]:
        """The functions that entries name, by what is quickly compared."""
        named: dict[Shape, list[tuple[Composite, str]]] = {}
        for entry in self.entries:
            for target in entry.functions:
                module, _, path = target.partition(":")
                code = codes_in(module).get(path)
                if code is None:
                    log.info("%s is not one function in a file", target)
                else:
                    named.setdefault(shape(code), []).append((entry, target))
        return named


def copies_everywhere(entries: Iterable[Composite]) -> tuple[list[Copy], list[str]]:
    """The copies in all modules of the packages that entries name.

    The modules that may have some are imported.

    Returns:
        The copies, and for each module that cannot be imported a line that says why.
    """
    search = Search.of(entries)
    copies: list[Copy] = []
    failed: list[str] = []
    for name in search.candidates():
        try:
            copies += search.in_module(import_module(name))
        except UnusableFunctionError as error:
            failed.append(str(error))
    return copies, failed


def is_in(module: str, packages: Iterable[str]) -> bool:
    """Return whether a module is one of these packages, or in one."""
    return f"{module}.".startswith(tuple(f"{package}." for package in packages))


def _functions(module: ModuleType) -> Iterator[tuple[str, type | None, FunctionType]]:
    """The functions of a module, and those of its classes with these, as they were before this
    project replaced them."""
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
