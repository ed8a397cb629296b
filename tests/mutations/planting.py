"""Faults that are planted in a copy of the code, all at once, and turned on one at a time.

Each site is rewritten to `changed if planted(N) else original`. The copy thus behaves as the code
does until the environment variable `COMPOSITES_MUTANT` names a site, in this process and in those
that it starts. A first run over the copy records which tests reach which site.
"""

import ast
import copy
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

SWITCH = '''\
"""Turns the planted faults on, and records the tests that reach them."""

import os

chosen = int(os.environ.get("COMPOSITES_MUTANT", "-1"))
_record = os.environ.get("COMPOSITES_MUTANTS_REACHED")
_seen = set()


def planted(site):
    if _record:
        test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
        if test and (site, test) not in _seen:
            _seen.add((site, test))
            with open(_record, "a", encoding="utf-8") as file:
                file.write(f"{site} {test}\\n")
    return site == chosen
'''
"""The module `composites._planted` of the copy."""

_IMPORT = "from composites._planted import planted as _planted"

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE,
    ast.GtE: ast.Gt, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult,
}  # fmt: skip
_CALLS = {"any": "all", "all": "any", "min": "max", "max": "min", "sorted": "list"}


@dataclass(frozen=True, slots=True)
class Site:
    """A location where a fault can be planted."""

    module: str
    """Path of the module, relative to the repository."""
    line: int
    original: str
    """Source of the expression."""
    changed: str
    rank: str
    """Digest of the location without its line number, so that a sample outlives other changes."""

    def __str__(self) -> str:
        return f"{self.module}:{self.line}: {self.original} -> {self.changed}"


def sites(root: Path, folders: Sequence[str]) -> list[Site]:
    """Return all sites in the functions of the modules in these folders, by rank."""
    listed = [
        site
        for folder in folders
        for path in sorted((root / folder).rglob("*.py"))
        for site in _sites_of_module(root, path)
    ]
    return sorted(listed, key=lambda site: site.rank)


def plant(root: Path, numbered: Sequence[Site]) -> None:
    """Rewrite the modules under `root` so that each site can be turned on by its index."""
    (root / "composites" / "_planted.py").write_text(SWITCH, encoding="utf-8")
    for module in sorted({site.module for site in numbered}):
        path = root / module
        tree = ast.parse(path.read_text(encoding="utf-8"))
        numbers = {site.rank: number for number, site in enumerate(numbered)}
        tree = ast.fix_missing_locations(_Planter(module, numbers).visit(tree))
        position = _after_future_imports(tree)
        tree.body.insert(position, ast.parse(_IMPORT).body[0])
        path.write_text(ast.unparse(tree) + "\n", encoding="utf-8")


def _sites_of_module(root: Path, path: Path) -> Iterator[Site]:
    module = str(path.relative_to(root))
    planter = _Planter(module, None)
    planter.visit(ast.parse(path.read_text(encoding="utf-8")))
    yield from planter.sites


class _Planter(ast.NodeTransformer):
    """Lists the sites of a module, or plants those that have a number."""

    def __init__(self, module: str, numbers: dict[str, int] | None) -> None:
        self.module = module
        self.numbers = numbers
        self.sites: list[Site] = []
        self._functions: list[str] = []
        self._times: dict[str, int] = {}

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self._functions.append(node.name)
        node.body = [self.visit(statement) for statement in node.body]
        self._functions.pop()
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        # Neither defaults, nor decorators, nor annotations: import time and typing read these.
        self._functions.append(f"{node.name}()")
        node.body = [self.visit(statement) for statement in node.body]
        self._functions.pop()
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        return node  # messages

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return node

    def visit_Match(self, node: ast.Match) -> ast.AST:
        for case in node.cases:
            case.body = [self.visit(statement) for statement in case.body]
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        swapped = _COMPARISONS.get(type(node.ops[0])) if len(node.ops) == 1 else None
        if swapped is None:
            return self.generic_visit(node)

        def change(changed: ast.Compare) -> ast.expr:
            changed.ops = [swapped()]
            return changed

        return self._site(node, change)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        def change(changed: ast.BoolOp) -> ast.expr:
            changed.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            return changed

        return self._site(node, change)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        if not isinstance(node.op, ast.Not):
            return self.generic_visit(node)
        return self._site(node, lambda changed: changed.operand)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        swapped = _ARITHMETIC.get(type(node.op))
        if swapped is None or any(_is_text(side) for side in (node.left, node.right)):
            return self.generic_visit(node)

        def change(changed: ast.BinOp) -> ast.expr:
            changed.op = swapped()
            return changed

        return self._site(node, change)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, bool):
            return self._site(node, lambda changed: ast.Constant(not changed.value))
        if isinstance(node.value, int):
            return self._site(node, lambda changed: ast.Constant(changed.value + 1))
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name = node.func.id if isinstance(node.func, ast.Name) else None
        if name not in _CALLS or (name == "sorted" and node.keywords):
            return self.generic_visit(node)

        def change(changed: ast.Call) -> ast.expr:
            changed.func = ast.Name(_CALLS[name], ast.Load())
            return changed

        return self._site(node, change)

    def visit_If(self, node: ast.If) -> ast.AST:
        return self._branch(node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        return self._branch(node)

    def _branch(self, node: ast.If | ast.IfExp) -> ast.AST:
        # Comparisons and the like have their own change, which says the same.
        if isinstance(node.test, ast.Compare | ast.BoolOp | ast.UnaryOp):
            return self.generic_visit(node)
        pristine = copy.deepcopy(node.test)
        self.generic_visit(node)
        node.test = self._planted(node.test, pristine, ast.UnaryOp(ast.Not(), pristine))
        return node

    def _site(self, node: ast.expr, change: Callable[..., ast.expr]) -> ast.AST:
        pristine = copy.deepcopy(node)
        changed = change(copy.deepcopy(node))
        self.generic_visit(node)
        return self._planted(node, pristine, changed)

    def _planted(self, visited: ast.expr, pristine: ast.expr, changed: ast.expr) -> ast.expr:
        if not any(name.endswith("()") for name in self._functions):
            return visited
        site = self._described(pristine, ast.fix_missing_locations(changed))
        self.sites.append(site)
        number = None if self.numbers is None else self.numbers.get(site.rank)
        if number is None:
            return visited
        switch = ast.Call(ast.Name("_planted", ast.Load()), [ast.Constant(number)], [])
        return ast.IfExp(switch, changed, visited)

    def _described(self, pristine: ast.expr, changed: ast.expr) -> Site:
        original, replacement = ast.unparse(pristine), ast.unparse(changed)
        site = f"{self.module} {'.'.join(self._functions)} {original} {replacement}"
        # Equal expressions of one function are told apart by their order.
        self._times[site] = self._times.get(site, 0) + 1
        digest = hashlib.sha256(f"{site} {self._times[site]}".encode()).hexdigest()
        return Site(self.module, pristine.lineno, original, replacement, digest)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _after_future_imports(tree: ast.Module) -> int:
    """The index of the first statement behind the docstring and the `__future__` imports."""
    last = 0
    for index, statement in enumerate(tree.body):
        is_docstring = index == 0 and isinstance(statement, ast.Expr)
        is_future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        if is_docstring or is_future:
            last = index + 1
    return last
