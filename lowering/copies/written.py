"""Functions as their files have them. No module is imported or executed for this."""

from __future__ import annotations

import ast
import dis
import importlib.util
import inspect
import logging
import pkgutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.machinery import ModuleSpec, PathFinder
from types import CodeType
from typing import Any

from composites.python_syntax import parse_module

log = logging.getLogger("composites")


Shape = tuple[Any, ...]
Form = tuple[Any, ...]
Binding = str | ast.FunctionDef | ast.ClassDef | ast.expr | None
"""The statement that binds a name: an import of `package.module` or `package.module:name`, a `def`,
a `class`, or an expression that is assigned. None stands for other statements, and for several."""

_KINDS = (
    inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | inspect.CO_GENERATOR
    | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
)  # fmt: skip


@dataclass(frozen=True)
class WrittenModule:
    """A module as its file has it."""

    name: str
    body: Sequence[ast.stmt]
    codes: Mapping[str, CodeType]
    """The code of its functions and classes, by path."""
    is_package: bool

    @cached_property
    def names(self) -> dict[str, Binding]:
        """The bindings of the global names."""
        return _names(self.body, self.name if self.is_package else self.name.rpartition(".")[0])

    def places(self, name: str) -> Iterator[tuple[WrittenModule, str, Binding]]:
        """The modules that bind a global name, each with its name and binding there: first this
        one, then the one that its import names, and so on. Files of torch are not read."""
        module: WrittenModule | None = self
        seen: set[tuple[str, str]] = set()  # a package may import its own submodule
        while module is not None and name in module.names and (module.name, name) not in seen:
            seen.add((module.name, name))
            binding = module.names[name]
            yield module, name, binding
            source, _, name = binding.partition(":") if isinstance(binding, str) else ("", "", "")
            is_read = name and source.partition(".")[0] != "torch"
            module = written_module(source) if is_read else None

    def defined(self, path: str) -> Binding:
        """The binding at a path such as `Class.method`."""
        names, binding = self.names, None
        for part in path.split("."):
            binding = names.get(part)
            names = _names(binding.body) if isinstance(binding, ast.ClassDef) else {}
        return binding


@dataclass(frozen=True)
class WrittenFunction:
    """A function as its file has it."""

    target: str
    """`package.module:Class.method`"""
    module: WrittenModule
    node: ast.FunctionDef
    code: CodeType

    @property
    def owner(self) -> str:
        """The class of a method, `package.module:Class`; empty for other functions."""
        return self.target.rpartition(".")[0] if "." in self.target.partition(":")[2] else ""


@lru_cache(maxsize=256)
def written_function(target: str) -> WrittenFunction | None:
    """The function `package.module:Class.method`; None if its file, or one such function in it, is
    not found."""
    name, _, path = target.partition(":")
    module = written_module(name)
    node = None if module is None else module.defined(path)
    if module is None or not isinstance(node, ast.FunctionDef) or path not in module.codes:
        log.info("%s is not one function in a file", target)
        return None
    return WrittenFunction(target, module, node, module.codes[path])


def written_member(owner: str, name: str) -> tuple[str, WrittenFunction | None] | None:
    """The `def` that a class `package.module:Class` has under a name, in its file or those of its
    bases, and its decorators."""
    source, _, path = owner.partition(":")
    module = written_module(source) if path else None
    node = None if module is None else module.defined(path)
    if module is None or not isinstance(node, ast.ClassDef):
        return None
    names = _names(node.body)
    if name in names:
        binding = names[name]
        if not isinstance(binding, ast.FunctionDef):
            return None
        decorators = " ".join(map(ast.unparse, binding.decorator_list))
        return decorators, written_function(f"{owner}.{name}")
    for base in node.bases:
        places = list(module.places(base.id)) if isinstance(base, ast.Name) else []
        for of_base, inherited, _ in places[-1:]:
            if (member := written_member(f"{of_base.name}:{inherited}", name)) is not None:
                return member
    return None


@lru_cache(maxsize=64)  # a syntax tree takes megabytes
def written_module(name: str) -> WrittenModule | None:
    """A module as its file has it; None if it has no file with source."""
    loader = _loader(name)
    try:
        source = loader.get_source(name)
        if source is not None:
            body = parse_module(source).body
            return WrittenModule(name, body, codes_in(name), loader.is_package(name))
    except (AttributeError, ImportError, SyntaxError, OSError):  # a loader without source
        pass
    log.info("the source of %s cannot be read", name)
    return None


def codes_in(module: str) -> dict[str, CodeType]:
    """The code of the functions and classes of a module, as its file has it, by path."""
    try:
        code = _loader(module).get_code(module)
    except (AttributeError, ImportError, SyntaxError, OSError):
        return {}
    return {} if code is None else {c.co_qualname: c for c in codes(code)}


def shape(code: CodeType) -> Shape:
    """Names that are quickly read and equal for equal code, so that most functions need no more."""
    return code.co_varnames, code.co_names


def form(code: CodeType) -> Form:
    """The form of a function: equal for functions that do the same, given that their names mean the
    same. It has their instructions, not names of functions, docstrings, annotations and lines."""
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


def codes(code: CodeType) -> Iterator[CodeType]:
    """Code, and that of the functions and classes in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


def _loader(module: str) -> Any:
    spec = _find_spec(module)
    return None if spec is None else spec.loader


def module_names(package: str) -> Iterator[str]:
    """The names of a package and of all modules in it. None is imported."""
    spec = _find_spec(package)
    if spec is None:
        return
    yield package
    for module in pkgutil.iter_modules(spec.submodule_search_locations):
        name = f"{package}.{module.name}"
        yield from module_names(name) if module.ispkg else (name,)


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
        path = list(map(str, spec.submodule_search_locations))  # transformers has paths there
        spec = PathFinder.find_spec(f"{spec.name}.{part}", path)
    return spec


def _names(body: Sequence[ast.stmt], package: str = "") -> dict[str, Binding]:
    """The bindings of the names of a module or class."""
    names: dict[str, Binding] = {}
    for name, binding in _bindings(body, package):
        names[name] = binding if names.setdefault(name, binding) == binding else None
    return names


def _bindings(nodes: Iterable[ast.AST], package: str) -> Iterator[tuple[str, Binding]]:
    """The names that the statements of a module or class bind, with those in branches."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                yield alias.asname or top, alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom):
            module = _absolute(node, package)
            for alias in node.names:
                yield alias.asname or alias.name, f"{module}:{alias.name}"
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name, node
        elif isinstance(node, ast.AsyncFunctionDef):
            yield node.name, None
        elif isinstance(node, ast.Assign) and all(isinstance(t, ast.Name) for t in node.targets):
            yield from ((ast.unparse(target), node.value) for target in node.targets)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id, None
        else:
            yield from _bindings(ast.iter_child_nodes(node), package)


def _absolute(statement: ast.ImportFrom, package: str) -> str:
    parts = package.split(".") if statement.level else []
    parts = parts[: len(parts) - statement.level + 1] if statement.level > 1 else parts
    return ".".join((*parts, *((statement.module,) if statement.module else ())))
