"""Conditions of `when: {where: […]}`, written as expressions in a small subset of Python.

An expression may use the call's arguments, `t.shape[i]`, `t.dim()`, `t.dtype`, `t.numel()`,
numbers, strings, None, and element types such as `bf16`. It may combine them with comparisons,
`in`, `and`, `or`, `not`, `if`/`else`, arithmetic and `len()`. Everything else is rejected, so a
registry file cannot run code through a condition.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from composites.element_types import PYTORCH_NAMES, REGISTRY_TYPES
from composites.errors import did_you_mean

_NODES = (
    ast.Expression, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.BinOp,
    ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.Compare, ast.Eq, ast.NotEq, ast.Lt,
    ast.LtE, ast.Gt, ast.GtE, ast.In, ast.NotIn, ast.Is, ast.IsNot, ast.Constant, ast.Name,
    ast.Load, ast.Attribute, ast.Subscript, ast.Slice, ast.Tuple, ast.List, ast.IfExp, ast.Call,
)  # fmt: skip
_PROPERTIES = ("shape", "dtype", "ndim")
_METHODS = ("dim", "numel", "is_floating_point")


class ConditionError(ValueError):
    """The text is not a valid condition."""


def compile_condition(text: str, arguments: Iterable[str]) -> str:
    """Translate a condition into a Python expression, with torch dtypes in place of element types.

    Args:
        arguments: the names that the call has, including dotted paths such as `self.weight`.

    Raises:
        ConditionError: the text is not an expression of the allowed subset.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError as error:
        raise ConditionError(f"{text!r} is not an expression: {error.msg}") from None
    return ast.unparse(ast.fix_missing_locations(_Checker(text, tuple(arguments)).visit(tree)))


class _Checker(ast.NodeTransformer):
    def __init__(self, text: str, arguments: tuple[str, ...]) -> None:
        self.text = text
        self.arguments = arguments

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if not isinstance(node, _NODES):
            written = ast.unparse(node) if isinstance(node, ast.expr) else type(node).__name__
            raise ConditionError(f"{self.text!r}: {written!r} is not allowed in a condition")
        return super().generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self.arguments:
            return node
        if node.id in REGISTRY_TYPES:
            torch = ast.Name("torch", ast.Load())
            return ast.Attribute(torch, PYTORCH_NAMES[node.id], ast.Load())
        hint = did_you_mean(node.id, [*self.arguments, *REGISTRY_TYPES])
        raise ConditionError(f"{self.text!r}: there is no argument {node.id!r}{hint}")

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        path = ast.unparse(node)
        if path in self.arguments:
            return ast.Name(path.replace(".", "_"), ast.Load())
        if node.attr not in _PROPERTIES:
            known = ", ".join((*_PROPERTIES, *(f"{name}()" for name in _METHODS)))
            raise ConditionError(
                f"{self.text!r}: {path!r} is not available in a condition (use {known})"
            )
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        function = node.func
        if isinstance(function, ast.Name) and function.id == "len" and len(node.args) == 1:
            argument = self.visit(node.args[0])
            return ast.Call(function, [argument], [])
        if (
            isinstance(function, ast.Attribute)
            and function.attr in _METHODS
            and not node.args
            and not node.keywords
        ):
            called = ast.Attribute(self.visit(function.value), function.attr, ast.Load())
            return ast.Call(called, [], [])
        known = ", ".join(("len(x)", *(f"x.{name}()" for name in _METHODS)))
        raise ConditionError(
            f"{self.text!r}: {ast.unparse(node)!r} is not allowed in a condition (use {known})"
        )
