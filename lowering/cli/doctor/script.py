"""A user's script: what can be said of it without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from composites.python_syntax import imports, parse_module
from composites.settings import ALLOWLIST
from lowering.cli.doctor.findings import Finding

_IMPORTED = ("torch", "torch_xla")


def script_findings(script: Path) -> Iterator[Finding]:
    """Findings on a script that may not be Python at all."""
    try:
        tree = parse_module(script.read_bytes(), str(script))
    except OSError as error:
        yield Finding("problem", str(script), f"cannot be read: {error.strerror}", "name a script")
        return
    except (SyntaxError, ValueError) as error:
        yield Finding("problem", str(script), f"is not Python: {error}", "name a Python script")
        return
    imported = min((line for name, line in imports(tree) if name in _IMPORTED), default=None)
    late = [line for line in _lines_that_set(tree) if imported is not None and line > imported]
    if late:
        yield Finding(
            "problem",
            str(script),
            f"line {late[0]} sets {ALLOWLIST.name} after torch was imported in line {imported}",
            f"set it in the shell, as in `{ALLOWLIST.name}=gelu python {script.name}`, or call"
            " composites.enable",
        )
    else:
        yield Finding("ok", str(script), "sets nothing too late")


def _lines_that_set(tree: ast.AST) -> Iterator[int]:
    """Lines with `os.environ["XLA_COMPOSITE_OP"] = …`, or a call that does the same."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            targets = [t for t in node.targets if isinstance(t, ast.Subscript)]
            if any(_is_variable(t.slice) and "environ" in ast.unparse(t.value) for t in targets):
                yield node.lineno
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            called = node.func.attr
            sets = called == "putenv" or (
                called in ("setdefault", "update") and "environ" in ast.unparse(node.func.value)
            )
            named = any(k.arg == ALLOWLIST.name for k in node.keywords)
            if sets and (named or any(_is_variable(part) for part in ast.walk(node))):
                yield node.lineno


def _is_variable(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value == ALLOWLIST.name
