"""Functions as their files have them. No module is imported or executed for this."""

from __future__ import annotations

import ast
import importlib.util
import logging
import pkgutil
import symtable
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.machinery import ModuleSpec, PathFinder
from types import CodeType
from typing import Any

from composites.python_syntax import parse_module

log = logging.getLogger("composites")


Shape = tuple[Any, ...]
Binding = str | ast.FunctionDef | ast.expr | None
"""The statement that binds a name: an import of `package.module` or `package.module:name`, a `def`,
or an expression that is assigned. None stands for other statements, and for more than one."""


@dataclass(frozen=True)
class WrittenModule:
    """A module as its file has it."""

    name: str
    body: Sequence[ast.stmt]
    is_package: bool

    @cached_property
    def names(self) -> dict[str, Binding]:
        """The bindings of the global names."""
        package = self.name if self.is_package else self.name.rpartition(".")[0]
        names: dict[str, Binding] = {}
        for name, binding in bindings(self.body, package):
            names[name] = binding if names.setdefault(name, binding) == binding else None
        return names

    def resolved(self, name: str) -> tuple[str, Binding]:
        """Where a global name is bound, `package.module:name`, and by what. The place is empty for
        built-in names, and has no colon for modules and names of torch."""
        module, seen = self, {(self.name, name)}
        while name in module.names:
            binding = module.names[name]
            if not isinstance(binding, str):
                return f"{module.name}:{name}", binding
            source, _, imported = binding.partition(":")
            is_of_torch = source.partition(".")[0] == "torch"
            of_file = written_module(source) if imported and not is_of_torch else None
            # A package may import its own submodule.
            if of_file is None or imported not in of_file.names or (source, imported) in seen:
                return binding.replace(":", "."), binding
            seen.add((source, imported))
            module, name = of_file, imported
        return "", None

    def defined(self, path: Sequence[str]) -> ast.FunctionDef | ast.ClassDef | None:
        """The function or class at a path; None if there is none, or more than one."""
        node: ast.FunctionDef | ast.ClassDef | None = None
        for part in path:
            body = self.body if node is None else node.body
            same = [s for s in body if isinstance(s, ast.FunctionDef | ast.ClassDef)]
            same = [statement for statement in same if statement.name == part]
            if len(same) != 1:
                return None
            node = same[0]
        return node


Class = tuple[WrittenModule, Sequence[str]]
"""A class in a file: its module, and the path to it."""


@dataclass(frozen=True)
class WrittenFunction:
    """A function as its file has it."""

    target: str
    """`package.module:Class.method`"""
    module: WrittenModule
    node: ast.FunctionDef

    @property
    def owner(self) -> Class:
        """The class of a method; its path is empty for other functions."""
        return self.module, tuple(self.target.partition(":")[2].split(".")[:-1])

    @property
    def first_line(self) -> int:
        """The line that code objects have."""
        return min([self.node.lineno, *(node.lineno for node in self.node.decorator_list)])

    @cached_property
    def tree(self) -> ast.FunctionDef:
        """The function without its name, decorators, defaults, docstrings and annotations."""
        copied = parse_module(ast.unparse(self.node)).body[0]
        assert isinstance(copied, ast.FunctionDef)
        copied.name, copied.decorator_list, copied.args.defaults = "function", [], []
        copied.args.kw_defaults = [None] * len(copied.args.kwonlyargs)
        copied.body.append(ast.Pass())  # nothing else may be left
        normalized = _Normalizer().visit(copied)
        assert isinstance(normalized, ast.FunctionDef)
        return ast.fix_missing_locations(normalized)

    @cached_property
    def shape(self) -> Shape:
        """The shape of the function's code, without importing it."""
        code = compile(ast.Module([self.tree], []), self.target, "exec", dont_inherit=True)
        return next(map(shape, filter(_is_code, code.co_consts)))

    @cached_property
    def form(self) -> str:
        """Text that is equal for functions that do the same, given that their names mean the
        same."""
        return ast.dump(self.tree)

    @cached_property
    def global_names(self) -> frozenset[str] | None:
        """The global and built-in names that the code reads; None if it imports, writes globals, or
        reads a variable of its class, as `super()` does."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import | ast.ImportFrom | ast.Global | ast.Nonlocal):
                return None
        (table,) = symtable.symtable(ast.unparse(self.tree), self.target, "exec").get_children()
        names = frozenset(_globals_in(table))
        return None if names & {"super", "__class__"} else names

    @cached_property
    def attribute_names(self) -> frozenset[str]:
        """The names of attributes and methods that the code uses, of whatever object."""
        return frozenset(n.attr for n in ast.walk(self.tree) if isinstance(n, ast.Attribute))


class _Normalizer(ast.NodeTransformer):
    """Drops what calls do not depend on."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return ast.arg(node.arg)

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is None or not node.simple:
            return self.generic_visit(node)
        return self.generic_visit(ast.Assign([node.target], node.value))


def _globals_in(table: symtable.SymbolTable) -> Iterator[str]:
    yield from (symbol.get_name() for symbol in table.get_symbols() if symbol.is_global())
    for child in table.get_children():
        yield from _globals_in(child)


@lru_cache(maxsize=256)
def written_function(target: str) -> WrittenFunction | None:
    """The function `package.module:Class.method`; None if its file, or one such function in it, is
    not found."""
    name, _, path = target.partition(":")
    module = written_module(name)
    node = None if module is None else module.defined(path.split("."))
    if module is None or not isinstance(node, ast.FunctionDef):
        log.info("%s is not one function in a file", target)
        return None
    return WrittenFunction(target, module, node)


@lru_cache(maxsize=64)  # a syntax tree takes megabytes
def written_module(name: str) -> WrittenModule | None:
    """A module as its file has it; None if it has no file with source."""
    loader = _loader(name)
    try:
        source = loader.get_source(name)
        if source is not None:
            return WrittenModule(name, parse_module(source).body, loader.is_package(name))
    except (AttributeError, ImportError, SyntaxError, OSError):  # a loader without source
        pass
    log.info("the source of %s cannot be read", name)
    return None


def shapes(module: str) -> Iterator[Shape]:
    """The shapes of the functions and classes of a module, as its file has it."""
    try:
        code = _loader(module).get_code(module)
    except (AttributeError, ImportError, SyntaxError, OSError):
        return
    for outer in filter(_is_code, () if code is None else code.co_consts):
        yield from map(shape, (outer, *filter(_is_code, outer.co_consts)))


def shape(code: CodeType) -> Shape:
    """Names that are quickly read and equal for equal code, so that most functions need no more."""
    return code.co_varnames, code.co_names


def _is_code(constant: object) -> bool:
    return isinstance(constant, CodeType)


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
        loaded = sys.modules.get(f"{spec.name}.{part}")
        known = getattr(loaded, "__spec__", None)
        path = list(spec.submodule_search_locations)
        spec = known or PathFinder.find_spec(f"{spec.name}.{part}", path)
    return spec


def bindings(nodes: Iterable[ast.AST], package: str) -> Iterator[tuple[str, Binding]]:
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
        elif isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef | ast.AsyncFunctionDef):
            yield node.name, None
        elif isinstance(node, ast.Assign) and all(isinstance(t, ast.Name) for t in node.targets):
            yield from ((ast.unparse(target), node.value) for target in node.targets)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id, None
        else:
            yield from bindings(ast.iter_child_nodes(node), package)


def _absolute(statement: ast.ImportFrom, package: str) -> str:
    parts = package.split(".") if statement.level else []
    parts = parts[: len(parts) - statement.level + 1] if statement.level > 1 else parts
    return ".".join((*parts, *((statement.module,) if statement.module else ())))
