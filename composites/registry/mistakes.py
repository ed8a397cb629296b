"""Mistakes in `when`, the conditions of entries and of decompositions to choose, and in `saves` and
`intermediates`, the values that a backward takes besides gradients."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from composites.registry.conditions import ConditionError, compile_condition, parse_condition
from composites.registry.document import INTERMEDIATE
from composites.registry.model import Composite, When
from composites.registry.operators import Argument, Operator, names

_OPERAND_KEYS = ("dtypes", "rank", "where")
_RESULT = re.compile(r"result(\.[1-9][0-9]*)?")

Hint = Callable[[str, Sequence[str]], str]
"""Returns `; did you mean …` for a name and a list of valid names."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """A message, and the keys that lead to the mistake."""

    message: str
    keys: tuple[str, ...]


def mistakes_of_when(when: When, operator: Operator | None, hint: Hint) -> Iterator[Mistake]:
    """Yield the mistakes in conditions.

    Args:
        operator: the operator whose arguments the conditions name; None for a Python function,
            which is checked when its module is imported.
    """
    for name, allowed in when.values:
        for message in _mistakes_of_values(name, allowed, operator, hint):
            yield Mistake(f"when: {message}", ("when", name))
    for text in when.where:
        try:
            if operator is None:
                parse_condition(text)
            else:
                compile_condition(text, names(operator.arguments))
        except ConditionError as error:
            yield Mistake(f"when: where: {error}", ("when", "where"))


def _mistakes_of_values(
    name: str, allowed: Sequence[Any], operator: Operator | None, hint: Hint
) -> Iterator[str]:
    if any(value != value for value in allowed):
        yield f"{name}: nan is equal to no value; remove it"
    elif operator is not None:
        argument, tensors = operator.argument(name), operator.tensors
        if argument is None or argument in tensors:
            value_names = [a.name for a in operator.arguments if a not in tensors]
            choices = [*value_names, *_OPERAND_KEYS]
            yield (
                f"{operator.qualified} has no argument {name!r} that is not a tensor"
                f"{hint(name, choices)} (a condition can name {', '.join(choices)})"
            )
            return
        for value in allowed:
            if not _fits(value, argument):
                yield f"{name} is of kind {argument.kind}; {value!r} is not"


def _fits(value: Any, argument: Argument) -> bool:
    accepted: dict[str, tuple[type, ...]] = {
        "int": (int,),
        "float": (int, float),
        "scalar": (int, float, bool),
        "bool": (bool,),
        "string": (str,),
    }
    return type(value) in accepted.get(argument.kind, ())


def problems_of_saves(saves: Sequence[str], operands: Sequence[str]) -> Iterator[str]:
    """Yield problems of names under `saves`. Values with a function of their own are not checked.

    Args:
        operands: the operands of the composite.
    """
    for name in saves:
        if name not in operands and not _RESULT.fullmatch(name):
            yield (
                f"saves: {name!r} is neither an operand ({', '.join(operands) or 'there is none'})"
                " nor a result (result, result.1, …)"
            )


def problems_of_intermediates(names: Sequence[str], entry: Composite) -> Iterator[str]:
    """Yield problems of names under `intermediates`.

    Args:
        entry: the entry, whose `saved` includes the names.
    """
    used = [*entry.operands, *(name for name, target in entry.saved if target is not None)]
    used += [attribute.argument or "" for attribute in entry.attributes]
    for name in dict.fromkeys(names):
        if not INTERMEDIATE.fullmatch(name):
            yield f"intermediates: {name!r} is not the name of a value, such as gates"
        elif names.count(name) > 1:
            yield f"intermediates: {name!r} is listed twice"
        elif name in used or _RESULT.fullmatch(name):
            yield f"intermediates: {name!r} has another meaning in this entry; choose another name"
