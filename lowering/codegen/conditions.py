"""The conditions under which an entry claims a call, as Python expressions for Dynamo.

`registry.selection` checks them when a call is lowered (`lowering.dispatch.call`). Dynamo traces
all conditions of an entry in one function.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from composites.element_types import PYTORCH_NAMES
from composites.registry.conditions import compile_condition, names_in
from composites.registry.model import Composite
from composites.registry.operand_lists import has_segment_sizes, is_list, is_optional
from composites.registry.operators import Operator
from composites.registry.signatures import describe_function
from lowering.codegen.paths import local
from lowering.codegen.python_text import literal, written_parameters, written_tuple


def tensors_left_out(entry: Composite, operator: Operator) -> tuple[str, ...]:
    """The tensor arguments that are not operands. They must be None."""
    return tuple(a.name for a in operator.tensors if a.name not in entry.operands)


def optional_in_order(entry: Composite, operator: Operator) -> tuple[tuple[str, str], ...]:
    """Pairs of optional operands, of which the second may be present only if the first is.

    Consumers read operands by position, unless an attribute says which operands are present.
    """
    if has_segment_sizes(entry, operator):
        return ()
    optional = [name for name in entry.operands if is_optional(name, operator)]
    return tuple(pairwise(name for name in optional if operator.argument(name) is not None))


def condition_expressions(entry: Composite, operator: Operator) -> Iterator[str]:
    """The conditions of an entry, of arguments and paths by their local names.

    Raises:
        ConditionError: a condition does not fit the operator or function.
    """
    yield from (f"{name} is None" for name in tensors_left_out(entry, operator))
    for first, second in optional_in_order(entry, operator):
        yield f"({first} is not None or {second} is None)"
    for name, values in entry.when.values:
        yield f"{local(name)} in {literal(tuple(values))}"
    if entry.when.ranks:
        first = entry.operands[0]
        yield _for_each_tensor(first, operator, f"{local(first)}.dim() in {entry.when.ranks!r}")
    if entry.when.dtypes:
        dtypes = written_tuple([f"torch.{PYTORCH_NAMES[dtype]}" for dtype in entry.when.dtypes])
        for name in entry.operands:
            term = _for_each_tensor(name, operator, f"{local(name)}.dtype in {dtypes}")
            absent = f"{local(name)} is None or " if is_optional(name, operator) else ""
            yield f"({absent}{term})" if absent else term
    arguments = [a.name for a in operator.arguments] + [n for n in entry.operands if "." in n]
    for text in entry.when.where:
        yield f"({compile_condition(text, arguments)})"


def _for_each_tensor(operand: str, operator: Operator, term: str) -> str:
    """A condition on a tensor, for each tensor if the operand is a list."""
    if not is_list(operand, operator):
        return term
    item = term.replace(f"{local(operand)}.", "_t.", 1)
    return f"_all([{item} for _t in {local(operand)}])"


def condition_source(entry: Composite, function: Callable[..., Any], target: str) -> str:
    """The source of `matches(…)`: an entry's conditions on a call of `function`, for Dynamo."""
    operator = describe_function(function, target)
    parameters = ", ".join(written_parameters(operator))
    terms = [f"({expression})" for expression in condition_expressions(entry, operator)]
    expression = " and ".join(terms) or "True"
    read = {name for text in entry.when.where for name in names_in(text)}
    lists = "".join(  # conditions see lists as tuples
        f"    {a.name} = _tuple({a.name}) if _isinstance({a.name}, _list) else {a.name}\n"
        for a in operator.arguments
        if a.name in read
    )
    return (
        "from __future__ import annotations\n\n"
        f"def matches({parameters}) -> bool:\n{lists}    return {expression}\n"
    )
