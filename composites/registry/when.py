"""Conditions of `when`, from a file's text to the frozen form, checked against what they are about.

`validation` calls this for entries, and `alternatives` for decompositions to choose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from composites.registry.conditions import ConditionError, compile_condition, parse_condition
from composites.registry.model import When
from composites.registry.operators import Argument, Operator

_OF_ALL_OPERANDS = ("dtypes", "rank", "where")

Hint = Callable[[str, Sequence[str]], str]
"""`; did you mean …` for a name and those that are known."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """A problem, and the keys where it is; those of `read_when` are under `when`."""

    message: str
    keys: tuple[str, ...]


def read_when(
    conditions: Mapping[str, Sequence[Any]], operator: Operator | None, hint: Hint
) -> tuple[When, tuple[Mistake, ...]]:
    """The conditions, and what is wrong with them.

    Args:
        operator: whose arguments they are about; None for a Python function, which is checked when
            its module is imported.
    """
    values, mistakes = _values(conditions, operator, hint)
    mistakes += _wrong_expressions(conditions.get("where", ()), operator)
    when = When(
        values,
        tuple(conditions.get("dtypes", ())),
        tuple(conditions.get("rank", ())),
        tuple(conditions.get("where", ())),
    )
    return when, tuple(mistakes)


def _values(
    conditions: Mapping[str, Sequence[Any]], operator: Operator | None, hint: Hint
) -> tuple[tuple[tuple[str, tuple[Any, ...]], ...], list[Mistake]]:
    values: list[tuple[str, tuple[Any, ...]]] = []
    mistakes: list[Mistake] = []
    tensors = operator.tensors if operator else ()
    known = [a.name for a in operator.arguments if a not in tensors] if operator else []
    for name, allowed in conditions.items():
        if name in _OF_ALL_OPERANDS:
            continue
        if any(value != value for value in allowed):
            message = f"when: {name}: nan is equal to no value; remove it"
            mistakes.append(Mistake(message, (name,)))
            continue
        argument = operator.argument(name) if operator is not None else None
        if operator is not None and (argument is None or argument in tensors):
            choices = [*known, *_OF_ALL_OPERANDS]
            message = (
                f"when: {operator.qualified} has no argument {name!r} that is not a tensor"
                f"{hint(name, choices)} (a condition can name {', '.join(choices)})"
            )
            mistakes.append(Mistake(message, (name,)))
            continue
        for value in allowed if argument is not None else ():
            assert argument is not None
            if not _fits(value, argument):
                message = f"when: {name} is of kind {argument.kind}; {value!r} is not"
                mistakes.append(Mistake(message, (name,)))
        values.append((name, tuple(allowed)))
    return tuple(values), mistakes


def _wrong_expressions(texts: Sequence[str], callee: Operator | None) -> Iterator[Mistake]:
    for text in texts:
        try:
            if callee is None:
                parse_condition(text)
            else:
                compile_condition(text, callee.kinds)
        except ConditionError as error:
            yield Mistake(f"when: where: {error}", ("where",))


def _fits(value: Any, argument: Argument) -> bool:
    accepted: dict[str, tuple[type, ...]] = {
        "int": (int,),
        "float": (int, float),
        "scalar": (int, float, bool),
        "bool": (bool,),
        "string": (str,),
    }
    return type(value) in accepted.get(argument.kind, ())
