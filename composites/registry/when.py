"""Mistakes in the conditions of `when`.

`validation` checks the conditions of entries, and `alternatives` those of decompositions to choose.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from composites.registry.conditions import ConditionError, compile_condition, parse_condition
from composites.registry.model import When
from composites.registry.operators import Argument, Operator, names

_OPERAND_KEYS = ("dtypes", "rank", "where")

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
