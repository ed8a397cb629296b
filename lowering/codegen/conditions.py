"""The conditions under which an entry claims a call, as Python expressions.

A call that is lowered evaluates them one after the other (`lowering.dispatch.call`). Dynamo traces
all of them in one function.
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch

from composites.element_types import NAME_OF_PYTORCH, PYTORCH_NAMES
from composites.errors import LoweringError
from composites.python_syntax import parse_expression
from composites.registry.conditions import compile_condition
from composites.registry.model import Composite
from composites.registry.operand_lists import has_segment_sizes, is_list, is_optional
from composites.registry.operators import Operator
from composites.registry.selection import TYPES, DescribedOperand
from composites.registry.signatures import describe_function
from lowering.codegen.paths import local
from lowering.codegen.python_text import literal, parameters_of, written_tuple

_NAMES = {"torch": TYPES, "_all": all, "len": len, "float": float, "__builtins__": {}}
"""The names that expressions may use besides the values of a call."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of an entry."""

    expression: str
    """Python, of the arguments and paths by their local names."""
    reason: str
    """The reason shown for a call that does not meet the condition."""
    shown: str | None = None
    """The argument whose value is said too."""
    text: str | None = None
    """The text of the entry, if the condition is an expression of its own."""

    def unmet(self, entry: Composite, values: Mapping[str, Any]) -> str | None:
        """The reason why a call does not meet the condition; None if it does.

        Args:
            values: of the call, by local name.

        Raises:
            LoweringError: it cannot be evaluated, such as `self.shape[1]` for a vector.
        """
        try:
            if eval(self.expression, {**_NAMES, **{n: seen(v) for n, v in values.items()}}):
                return None
        except Exception as error:
            if self.text is None:
                raise
            raise LoweringError(
                f"{entry.location}: {entry.qualified}: when: where: {self.text!r} cannot be"
                f" evaluated for this call ({type(error).__name__}: {error}); begin it with a"
                " condition under which it can be, as in `self.dim() == 2 and …`"
            ) from error
        if self.shown is None:
            return self.reason
        return f"{self.shown} is {values[local(self.shown)]!r}; {self.reason}"


def seen(value: Any) -> Any:
    """A value of a call as conditions see it: tensors without their values, dtypes as names."""
    if isinstance(value, torch.Tensor):
        name = _name(value.dtype)
        return DescribedOperand(tuple(value.shape), NAME_OF_PYTORCH.get(name, name))
    if isinstance(value, torch.dtype):
        return _name(value)
    if isinstance(value, list | tuple) and any(isinstance(v, torch.Tensor) for v in value):
        return [seen(item) for item in value]
    return value


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def conditions_of(entry: Composite, operator: Operator) -> list[Condition]:
    """The conditions of an entry, in the order in which they are evaluated.

    A tensor that is not an operand must be None. Consumers read operands by position, so an
    optional operand may be present only if the optional ones before it are, unless an attribute
    says which are there.

    Raises:
        ConditionError: one does not fit the operator or function.
    """
    conditions = [
        Condition(f"{argument.name} is None", f"{argument.name} is given, and is not an operand")
        for argument in operator.tensors
        if argument.name not in entry.operands
    ]
    optional = [name for name in entry.operands if is_optional(name, operator)]
    known = [name for name in optional if operator.argument(name) is not None]
    known = [] if has_segment_sizes(entry, operator) else known
    conditions += [
        Condition(f"({a} is not None or {b} is None)", f"the operand {b} is given, and {a} is not")
        for a, b in pairwise(known)
    ]
    for name, values in entry.when.values:
        taken = " or ".join(map(literal, values))
        expression = f"{local(name)} in {literal(tuple(values))}"
        conditions.append(Condition(expression, f"the entry takes {taken}", shown=name))
    conditions += _type_conditions(entry, operator)
    arguments = [a.name for a in operator.arguments] + [n for n in entry.operands if "." in n]
    for text in entry.when.where:
        expression = f"({compile_condition(text, arguments)})"
        conditions.append(Condition(expression, f"`where: {text}` does not hold", text=text))
    return conditions


def _type_conditions(entry: Composite, operator: Operator) -> Iterator[Condition]:
    if entry.when.ranks:
        first, ranks = entry.operands[0], " or ".join(map(str, entry.when.ranks))
        term = f"{local(first)}.dim() in {entry.when.ranks!r}"
        yield Condition(_of_each(first, operator, term), f"the rank of {first} is not {ranks}")
    if entry.when.dtypes:
        dtypes = written_tuple([f"torch.{PYTORCH_NAMES[dtype]}" for dtype in entry.when.dtypes])
        taken = ", ".join(PYTORCH_NAMES[dtype] for dtype in entry.when.dtypes)
        for name in entry.operands:
            absent = f"{local(name)} is None or " if is_optional(name, operator) else ""
            term = _of_each(name, operator, f"{local(name)}.dtype in {dtypes}")
            reason = f"the dtype of {name} is not one that the entry takes: {taken}"
            yield Condition(f"({absent}{term})" if absent else term, reason)


def _of_each(operand: str, operator: Operator, term: str) -> str:
    """A condition on a tensor, for each tensor if the operand is a list."""
    if not is_list(operand, operator):
        return term
    item = term.replace(f"{local(operand)}.", "_t.", 1)
    return f"_all([{item} for _t in {local(operand)}])"


def condition_source(entry: Composite, function: Callable[..., Any], target: str) -> str:
    """The source of `matches(…)`: an entry's conditions on a call of `function`, for Dynamo.

    Dynamo ends with an error of its own where an index is out of range or None has no length. The
    source therefore calls `_item` and `_length`, whose errors Dynamo takes for the program's. It
    then leaves the call to the hook, which reports the condition.
    """
    operator = describe_function(function, target)
    parameters = ", ".join(parameters_of(operator))
    terms = [f"({c.expression})" for c in conditions_of(entry, operator)]
    expression = ast.unparse(_GuardedReads().visit(parse_expression(" and ".join(terms) or "True")))
    return (
        "from __future__ import annotations\n\n"
        f"def matches({parameters}) -> bool:\n    return {expression}\n"
    )


class _GuardedReads(ast.NodeTransformer):
    """`values[i]` as `_item(values, i)`, and `len(values)` as `_length(values)`."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.slice, ast.Slice):
            return node
        name = ast.Name("_item", ast.Load())
        return ast.copy_location(ast.Call(name, [node.value, node.slice], []), node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "len":
            node.func = ast.copy_location(ast.Name("_length", ast.Load()), node.func)
        return node
