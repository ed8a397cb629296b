"""Conditions of `when: {where: […]}`, written as expressions in a small subset of Python.

An expression may use the call's arguments, `t.shape[i]`, `t.dim()`, `t.dtype`, `t.numel()`,
numbers, strings, None, and element types such as `bf16`. It may combine them with comparisons,
`in`, `and`, `or`, `not`, `if`/`else`, arithmetic and `len()`. Everything else is rejected, so a
registry file cannot run code through a condition. Length, depth and numbers have limits, because
Python's own parser and compiler fail on large expressions.
"""

import ast
import warnings
from collections.abc import Collection
from functools import lru_cache

from composites.element_types import PYTORCH_NAMES, REGISTRY_TYPES
from composites.errors import did_you_mean
from composites.python_syntax import ONE_AT_A_TIME, parse_expression

_NODES = (
    ast.Expression, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.BinOp,
    ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.Compare, ast.Eq, ast.NotEq, ast.Lt,
    ast.LtE, ast.Gt, ast.GtE, ast.In, ast.NotIn, ast.Is, ast.IsNot, ast.Constant, ast.Name,
    ast.Load, ast.Attribute, ast.Subscript, ast.Slice, ast.Tuple, ast.List, ast.IfExp, ast.Call,
)  # fmt: skip
_LISTS = (ast.Tuple, ast.List)
_PROPERTIES = ("shape", "dtype", "ndim")
_METHODS = ("dim", "numel", "is_floating_point")
_TYPES = tuple(name for name in REGISTRY_TYPES if name.isidentifier())  # not `complex<f32>`
_MAX_LENGTH = 4000
_MAX_DEPTH = 50
_MAX_NUMBER = 2**64  # of integers; no argument is larger


class ConditionError(ValueError):
    """The text is not a valid condition."""


def compile_condition(text: str, arguments: Collection[str]) -> str:
    """Translate a condition into a Python expression, with torch dtypes in place of element types.

    Args:
        arguments: the names of the call's values, including paths such as `self.weight`.

    Raises:
        ConditionError: the text is not an expression of the allowed subset.
    """
    return _compiled(text, tuple(arguments))


@lru_cache(maxsize=4096)  # alternatives and kernels compile their conditions for each traced call
def _compiled(text: str, arguments: tuple[str, ...]) -> str:
    checked = _Checker(text, arguments).visit(parse_condition(text))
    written = ast.unparse(ast.fix_missing_locations(checked))
    try:
        # Users cannot act on warnings about generated code. Threads share the warning filters.
        with ONE_AT_A_TIME, warnings.catch_warnings(action="error"):
            compile(written, "<condition>", "eval")
    except SyntaxError as error:  # as for `x.shape[0.5]` and `dim is -1`
        raise ConditionError(f"{shorten(text)} cannot be evaluated: {error.msg}") from None
    return written


def parse_condition(text: str) -> ast.Expression:
    """Parse a condition without checking its names and types.

    Raises:
        ConditionError: the text is not an expression, or exceeds a limit.
    """
    if len(text) > _MAX_LENGTH:
        raise ConditionError(
            f"{shorten(text)} has more than {_MAX_LENGTH} characters; write several conditions"
        )
    tree = _parse(text)
    if _depth(tree) > _MAX_DEPTH:
        raise ConditionError(
            f"{shorten(text)} is nested more than {_MAX_DEPTH} levels deep; write several"
            " conditions"
        )
    for node in ast.walk(tree):
        value = node.value if isinstance(node, ast.Constant) else None
        if isinstance(value, int) and value >= _MAX_NUMBER:
            raise ConditionError(
                f"{shorten(text)} has a number of more than 64 bits, which no argument has"
            )
    return tree


@lru_cache(maxsize=4096)
def names_in(text: str) -> frozenset[str]:
    """Return the names that a condition reads, except for element types and `len`.

    Raises:
        ConditionError: the text is not an expression, or exceeds a limit.
    """
    names = {node.id for node in ast.walk(parse_condition(text)) if isinstance(node, ast.Name)}
    return frozenset(names - {"len", *REGISTRY_TYPES})


def shorten(text: str) -> str:
    """Quote text for a message, with an ellipsis if it is long."""
    return repr(text if len(text) <= 200 else f"{text[:197]}...")


def _parse(text: str) -> ast.Expression:
    try:
        # Escapes such as '\\d' cause warnings. Threads share the warning filters.
        with ONE_AT_A_TIME, warnings.catch_warnings(action="ignore"):
            return parse_expression(text.strip())
    except SyntaxError as error:
        raise ConditionError(f"{shorten(text)} is not an expression: {error.msg}") from None
    except ValueError as error:  # a null character or a lone surrogate
        raise ConditionError(f"{shorten(text)} is not an expression: {error}") from None
    except (RecursionError, MemoryError):  # how Python's parser reports deep nesting
        raise ConditionError(f"{shorten(text)} is nested too deeply") from None


def _depth(tree: ast.AST) -> int:
    """Count the levels of a tree, without recursion."""
    depth, level = 0, [tree]
    while level:
        depth += 1
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return depth


class _Checker(ast.NodeTransformer):
    def __init__(self, text: str, arguments: tuple[str, ...]) -> None:
        self.text = text
        self.arguments = arguments

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if not isinstance(node, _NODES):
            raise self._wrong(node, "is not allowed in a condition")
        return super().generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if not isinstance(node.value, bool | int | float | str | None):
            raise self._wrong(node, "is not allowed in a condition (use numbers, text and None)")
        return node

    def visit_List(self, node: ast.List) -> ast.AST:
        return self.generic_visit(ast.Tuple(node.elts, node.ctx))  # lists of calls are tuples too

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self.arguments:
            return node
        if node.id in _TYPES:
            torch = ast.Name("torch", ast.Load())
            return ast.Attribute(torch, PYTORCH_NAMES[node.id], ast.Load())
        hint = did_you_mean(node.id, [*self.arguments, *_TYPES])
        raise ConditionError(f"{shorten(self.text)}: there is no argument {node.id!r}{hint}")

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        path = ast.unparse(node)
        if path in self.arguments:
            return ast.Name(path.replace(".", "_"), ast.Load())
        if node.attr not in _PROPERTIES:
            choices = ", ".join((*_PROPERTIES, *(f"{name}()" for name in _METHODS)))
            raise self._wrong(node, f"is not available in a condition (use {choices})")
        return self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        for side in (node.left, node.right):  # text and lists can be multiplied to any size
            is_text = isinstance(side, ast.Constant) and isinstance(side.value, str)
            if is_text or (isinstance(side, _LISTS) and not isinstance(node.op, ast.Add)):
                raise self._wrong(side, "is not a number")
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        match node:
            case ast.Call(ast.Name("len"), [ast.Starred()], []):
                pass  # raise the error below
            case ast.Call(ast.Name("len"), [argument], []):
                return ast.Call(node.func, [self.visit(argument)], [])
            case ast.Call(ast.Attribute(value, name), [], []) if name in _METHODS:
                called = ast.Attribute(self.visit(value), name, ast.Load())
                return ast.Call(called, [], [])
        choices = ", ".join(("len(x)", *(f"x.{name}()" for name in _METHODS)))
        raise self._wrong(node, f"is not allowed in a condition (use {choices})")

    def _wrong(self, node: ast.AST, what: str) -> ConditionError:
        written = ast.unparse(node) if isinstance(node, ast.expr) else type(node).__name__
        return ConditionError(f"{shorten(self.text)}: {written!r} {what}")
