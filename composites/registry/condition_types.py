"""The types of a condition's parts, as far as they are known before a call.

A part that cannot be evaluated for any call is an error: `len(1)`, `self.shape < 3`, `approximate -
1`. A part that may be evaluated is allowed, such as `len(dim)` where `dim` can be None.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Literal

from composites.attribute_types import ArgumentKind

Kind = Literal["number", "text", "none", "tensor", "dtype", "numbers", "list", "any"]
"""`numbers` is a list of numbers; `list` is one of anything; `any` is not known."""

Kinds = frozenset[Kind]

ANY: Kinds = frozenset({"any"})
TENSOR: Kinds = frozenset({"tensor"})
_NUMBER: Kinds = frozenset({"number"})
_TEXT: Kinds = frozenset({"text"})
_LISTS: Kinds = frozenset({"numbers", "list"})
_SIZED: Kinds = _LISTS | _TEXT
_NONE: Kinds = frozenset({"none"})

_OF_ARGUMENT: dict[ArgumentKind, Kind] = {
    "tensor": "tensor",
    "int": "number",
    "float": "number",
    "bool": "number",
    "scalar": "number",
    "string": "text",
    "ints": "numbers",
    "floats": "numbers",
    "bools": "numbers",
    "tensors": "list",
    "dtype": "dtype",
}
_PROPERTIES: dict[str, Kinds] = {
    "shape": frozenset({"numbers"}),
    "dtype": frozenset({"dtype"}),
    "ndim": _NUMBER,
}

Complain = Callable[[ast.expr, str], Exception]
"""Makes the error for a part of the condition and what is wrong with it."""


def kinds_of_argument(kind: ArgumentKind, *, optional: bool) -> Kinds:
    known = _OF_ARGUMENT.get(kind)
    if known is None:
        return ANY
    return frozenset({known, "none"}) if optional else frozenset({known})


def check_types(tree: ast.expr, arguments: Mapping[str, Kinds], complain: Complain) -> None:
    """Check a condition that has passed the other checks. Raises what `complain` makes."""
    _Types(arguments, complain).truth(tree)


class _Types:
    def __init__(self, arguments: Mapping[str, Kinds], complain: Complain) -> None:
        self.arguments = arguments
        self.complain = complain

    def truth(self, node: ast.expr) -> Kinds:
        """The kinds of a part that is used as true or false."""
        kinds = self.of(node)
        if kinds == TENSOR:
            raise self.complain(node, "is a tensor, which is neither true nor false")
        return kinds

    def of(self, node: ast.expr) -> Kinds:
        """The kinds of a part."""
        match node:
            case ast.Constant(value=None):
                return _NONE
            case ast.Constant(value=str()):
                return _TEXT
            case ast.Name():
                return self.arguments.get(node.id, frozenset({"dtype"}))
            case ast.Attribute():
                return self._attribute(node)
            case ast.Subscript():
                return self._subscript(node)
            case ast.Tuple() | ast.List():
                items = [self.of(item) for item in node.elts]
                return frozenset({"numbers" if all(k == _NUMBER for k in items) else "list"})
            case ast.BoolOp():
                return frozenset[Kind]().union(*[self.truth(value) for value in node.values])
            case ast.IfExp():
                self.truth(node.test)
                return self.of(node.body) | self.of(node.orelse)
            case ast.BinOp():
                return self._arithmetic(node)
            case ast.Compare():
                self._check_comparison(node)
            case ast.UnaryOp(op=ast.Not()):
                self.truth(node.operand)
            case ast.UnaryOp():
                self._need(node.operand, _NUMBER, "is not a number")
            case ast.Call(func=ast.Name()):
                self._need(node.args[0], _SIZED, "has no length")
            case ast.Call(func=ast.Attribute(value=value, attr=name)):
                self._need(value, TENSOR, f"is not a tensor, so it has no {name}()")
            case _:
                assert isinstance(node, ast.Constant), node
        return _NUMBER

    def _need(self, node: ast.expr, accepted: Kinds, otherwise: str) -> Kinds:
        kinds = self.of(node)
        if not kinds & (accepted | ANY):
            raise self.complain(node, otherwise)
        return kinds

    def _attribute(self, node: ast.Attribute) -> Kinds:
        path = ast.unparse(node)
        if path in self.arguments:
            return self.arguments[path]
        self._need(node.value, TENSOR, f"is not a tensor, so it has no {node.attr}")
        return _PROPERTIES[node.attr]

    def _subscript(self, node: ast.Subscript) -> Kinds:
        kinds = self._need(node.value, _SIZED, "is neither a list nor text, so it has no parts")
        if isinstance(node.slice, ast.Slice):
            for bound in (node.slice.lower, node.slice.upper, node.slice.step):
                if bound is not None:
                    self._need(bound, _NUMBER | _NONE, "is not a number")
            return kinds
        self._need(node.slice, _NUMBER, "is not a number")
        parts: dict[Kind, Kinds] = {"numbers": _NUMBER, "text": _TEXT}
        return frozenset[Kind]().union(*[parts.get(kind, ANY) for kind in kinds - _NONE])

    def _arithmetic(self, node: ast.BinOp) -> Kinds:
        left = self.of(node.left)
        if isinstance(node.op, ast.Add) and left & _LISTS:
            return left | self._need(node.right, _LISTS, "is not a list")
        # Lists and text can be multiplied, and text formatted, to any size. None of it has a use.
        self._need(node.left, _NUMBER, "is not a number")
        self._need(node.right, _NUMBER, "is not a number")
        divides = isinstance(node.op, ast.FloorDiv | ast.Mod)
        if divides and isinstance(node.right, ast.Constant) and node.right.value == 0:
            raise self.complain(node, "divides by zero")
        return _NUMBER

    def _check_comparison(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        kinds = [self.of(side) for side in sides]
        for number, operator in enumerate(node.ops):
            (first, second), (left, right) = sides[number : number + 2], kinds[number : number + 2]
            if isinstance(operator, ast.Is | ast.IsNot):
                for side in (first, second):
                    if not _is_unique(side):
                        raise self.complain(side, "cannot be compared with `is`; write `==`")
            elif isinstance(operator, ast.In | ast.NotIn):
                self._need(second, _SIZED, "is neither a list nor text")
                if right <= _TEXT and not left & (ANY | _TEXT):
                    raise self.complain(first, "is not text")
            elif TENSOR in (left, right) and _NONE not in (left, right):
                raise self.complain(
                    first if left == TENSOR else second,
                    "is a tensor; compare its shape or dtype, or write `is None`",
                )
            elif not isinstance(operator, ast.Eq | ast.NotEq) and not _ordered(left, right):
                raise self.complain(second, f"cannot be ordered with {ast.unparse(first)!r}")


def _is_unique(node: ast.expr) -> bool:
    """Whether Python has only one object of this value. Python warns of `is` with others."""
    if isinstance(node, ast.Constant):
        return node.value is None or isinstance(node.value, bool)
    return not isinstance(node, ast.Tuple | ast.List)


def _ordered(left: Kinds, right: Kinds) -> bool:
    """Whether `<` can work for some values of these kinds."""
    groups: tuple[Kinds, ...] = (_NUMBER, _TEXT, _LISTS)
    known = bool((left | right) & ANY)
    return known or any(left & group and right & group for group in groups)
