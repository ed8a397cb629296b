"""Functions as their files have them. No module is imported or executed for this."""

from __future__ import annotations

import ast
import importlib.util
import logging
import pkgutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.machinery import ModuleSpec, PathFinder
from types import CodeType
from typing import Any

from composites.python_syntax import parse_module
from lowering.copies import code as codes

log = logging.getLogger("composites")


@dataclass(frozen=True, slots=True)
class Imported:
    """A name that a module imports: a module, or what a module has under `name`."""

    module: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Defined:
    """A name that a `def` of the module binds."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A name that is assigned a constant."""

    value: Any


@dataclass(frozen=True, slots=True)
class Unknown:
    """A name that is bound in another way, or more than once."""


Meaning = Imported | Defined | Literal | Unknown


@dataclass(frozen=True)
class WrittenModule:
    """A module as its file has it."""

    name: str
    code: CodeType
    source: str
    is_package: bool

    @cached_property
    def body(self) -> list[ast.stmt]:
        return parse_module(self.source).body

    @cached_property
    def names(self) -> dict[str, Meaning]:
        """What the global names mean."""
        package = self.name if self.is_package else self.name.rpartition(".")[0]
        meanings: dict[str, Meaning] = {}
        for name, meaning in bindings(self.body, package):
            again = meanings.setdefault(name, meaning) != meaning
            meanings[name] = Unknown() if again else meaning
        return meanings


@dataclass(frozen=True)
class WrittenFunction:
    """A function as its file has it."""

    target: str
    module: WrittenModule
    code: CodeType = field(repr=False)

    @cached_property
    def form(self) -> codes.Form:
        return codes.form(self.code)

    @cached_property
    def arguments(self) -> ast.arguments | None:
        """The parameters and their defaults; None if they are not found."""
        body: Sequence[ast.stmt] = self.module.body
        *classes, name = self.target.partition(":")[2].split(".")
        for part in classes:
            owners = [s for s in body if isinstance(s, ast.ClassDef) and s.name == part]
            body = owners[0].body if len(owners) == 1 else ()
        found = [s for s in body if isinstance(s, ast.FunctionDef) and s.name == name]
        return found[0].args if len(found) == 1 else None


@cache
def written_function(target: str) -> WrittenFunction | None:
    """The function `package.module:Class.method`; None if its file, or one such function in it, is
    not found."""
    name, _, path = target.partition(":")
    module = written_module(name)
    if module is None:
        return None
    code = module.code
    for part in path.split("."):
        found = [c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == part]
        if len(found) != 1:
            log.info("%s: %s is not one function there", target, path)
            return None
        code = found[0]
    return WrittenFunction(target, module, code)


@cache
def written_module(name: str) -> WrittenModule | None:
    """A module as its file has it; None if it has no file with source."""
    spec = _find_spec(name)
    loader: Any = None if spec is None else spec.loader
    try:
        code, source = loader.get_code(name), loader.get_source(name)
        if code is None or source is None:
            return None
        return WrittenModule(name, code, source, loader.is_package(name))
    except (AttributeError, ImportError, SyntaxError, OSError):  # a loader without source
        log.info("the source of %s cannot be read", name)
        return None


def module_names(package: str) -> Iterator[str]:
    """The names of a package and of all modules in it. None is imported."""
    spec = _find_spec(package)
    if spec is None:
        return
    yield package
    for module in pkgutil.iter_modules(spec.submodule_search_locations):
        name = f"{package}.{module.name}"
        yield from module_names(name) if module.ispkg else (name,)


def code_objects(module: str) -> Iterator[CodeType]:
    """The code of the functions and classes of a module, as its file has it."""
    spec = _find_spec(module)
    loader: Any = None if spec is None else spec.loader
    try:
        code = loader.get_code(module)
    except (AttributeError, ImportError, SyntaxError, OSError):
        return
    if code is not None:
        yield from _inside(code, depth=2)


def _inside(code: CodeType, depth: int) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            if depth > 1:
                yield from _inside(constant, depth - 1)


def _find_spec(name: str) -> ModuleSpec | None:
    """The place of a module. Unlike `importlib.util.find_spec`, it imports no package."""
    top, *parts = name.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):  # `__main__` and the like have no place
        return None
    for part in parts:
        if spec is None or spec.submodule_search_locations is None:
            return None
        loaded = sys.modules.get(f"{spec.name}.{part}")
        known = getattr(loaded, "__spec__", None)
        path = list(spec.submodule_search_locations)
        spec = known or PathFinder.find_spec(f"{spec.name}.{part}", path)
    return spec


def bindings(nodes: Iterable[ast.AST], package: str) -> Iterator[tuple[str, Meaning]]:
    """The names that the statements of a module or class bind, with those in branches."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                yield alias.asname or top, Imported(alias.name if alias.asname else top)
        elif isinstance(node, ast.ImportFrom):
            module = _absolute(node, package)
            for alias in node.names:
                yield alias.asname or alias.name, Imported(module, alias.name)
        elif isinstance(node, ast.FunctionDef):
            yield node.name, Defined()
        elif isinstance(node, ast.ClassDef | ast.AsyncFunctionDef):
            yield node.name, Unknown()
        elif isinstance(node, ast.Assign) and all(isinstance(t, ast.Name) for t in node.targets):
            for target in node.targets:
                yield ast.unparse(target), _assigned(node.value)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id, Unknown()
        else:
            yield from bindings(ast.iter_child_nodes(node), package)


def _assigned(value: ast.expr) -> Meaning:
    try:
        return Literal(ast.literal_eval(value))
    except ValueError:
        return Unknown()


def _absolute(statement: ast.ImportFrom, package: str) -> str:
    parts = package.split(".") if statement.level else []
    parts = parts[: len(parts) - statement.level + 1] if statement.level > 1 else parts
    return ".".join((*parts, *((statement.module,) if statement.module else ())))
