"""Entries for functions and operators, as a registry file with comments.

An entry that cannot be written has a reason, which becomes a comment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import yaml

from composites.attribute_types import types_of_argument
from composites.errors import RegistryError
from composites.registry.model import Tensor
from composites.registry.operators import Operator, UnknownOperatorError, find_operator
from composites.registry.validation import parse_registry
from lowering.suggestion.functions import Function, Reads
from lowering.suggestion.values import Described, Other, Plain, written

_WIDTH = 100
_MANY = 8
"""Remarks at the end of a file that are written out."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the draft."""

    name: str
    caught: str
    """The function or operator."""
    document: Mapping[str, Any]
    remarks: tuple[str, ...] = ()
    """What is to be decided, as comments."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Why there is no entry."""

    reason: str


@dataclass(slots=True)
class Names:
    """Names of entries, each given once."""

    taken: set[str]

    def give(self, wanted: str) -> str:
        name, number = wanted, 2
        while name in self.taken:
            name, number = f"{wanted}_{number}", number + 1
        self.taken.add(name)
        return name


def of_function(function: Function) -> Entry | Refused:
    """An entry for a Python function, from its first call in the step."""
    reason = function.problem or _unusable(function)
    if reason:
        return Refused(reason)
    operands: list[str] = []
    attributes: dict[str, str] = {}
    remarks: list[str] = []
    for name, value in _listed(function):
        if isinstance(value, Tensor):
            operands.append(name)
        elif isinstance(value, Plain) and _is_attribute(value):
            attributes[_free(name, attributes)] = name
        elif isinstance(value, Plain):
            remarks.append(
                f"{name} was {_shown(value)}; if it can be something else, decide whether it is an"
                " operand or an attribute"
            )
    if not operands:
        return Refused("it takes no tensor that an entry could list as an operand")
    document: dict[str, Any] = {"function": function.target, "operands": operands}
    if attributes:
        document["attributes"] = attributes
    if function.returned is not None and function.returned.differentiable:
        document["backward"] = "derive"
    if "." not in function.target.partition(":")[2]:
        example = {
            name: written(value)
            for name, value in function.arguments.items()
            if not (isinstance(value, Plain) and value.value is None)
        }
        document["example"] = example
    return Entry(_name_of_function(function.target), function.target, document, tuple(remarks))


def _listed(function: Function) -> Iterable[tuple[str, Described]]:
    """What an entry lists, by path: arguments, and what is read of those that are objects."""
    for name, value in function.arguments.items():
        if name not in function.objects:
            yield name, value
    for name, reads in function.objects.items():
        for read, found in reads.values.items():
            yield f"{name}.{read}", found


def _unusable(function: Function) -> str:
    returned = function.returned
    if returned is None or not returned.only_tensors:
        return "it returns something else than tensors"
    for name, value in function.arguments.items():
        reads = function.objects.get(name)
        if isinstance(value, Other) and reads is None:
            what = "with tensors in it" if value.tensors else "which an entry cannot list"
            return f"it takes {name}, a {value.type} {what}; write an entry with `adapt`"
        if reads is not None and (reason := _unreadable(name, value, reads)):
            return reason
    return ""


def _unreadable(name: str, value: Described, reads: Reads) -> str:
    if reads.unknown:
        return reads.unknown
    if reads.written:
        return f"it writes {name}.{reads.written[0]}"
    for read, found in reads.values.items():
        if isinstance(found, Other):
            return f"it reads {name}.{read}, a {found.type}; write an entry with `adapt`"
    if isinstance(value, Other) and not reads.values and name != "self":
        return f"it takes {name}, a {value.type}; write an entry with `adapt`"
    return ""


def _is_attribute(value: Plain) -> bool:
    items = value.value if isinstance(value.value, list) else [value.value]
    kinds = {type(item) for item in items}
    return len(kinds) == 1 and kinds <= {bool, int, float, str} and not (
        isinstance(value.value, list) and kinds == {str}
    )  # fmt: skip


def _shown(value: Plain) -> str:
    return str(value.value).removeprefix("torch.")


def _free(path: str, taken: Mapping[str, str]) -> str:
    name = path.rpartition(".")[2]
    return name if name not in taken else path.replace(".", "_")


def of_operator(name: str, overload: Any, example: Mapping[str, Described]) -> Entry | Refused:
    """An entry for an operator, from its schema and its first call in the step."""
    try:
        operator = find_operator(name)
    except UnknownOperatorError as error:
        return Refused(str(error))
    tags = getattr(overload, "tags", ())
    if operator.name.endswith("_copy") or operator.mutates:
        return Refused("it only moves data")
    if torch.Tag.nondeterministic_seeded in tags:
        return Refused("it draws random numbers")
    if torch.Tag.core in tags and torch.Tag.pointwise in tags:
        return Refused("it is elementary; catch the function that calls it")
    attributes: dict[str, Any] = {}
    remarks: list[str] = []
    for argument in operator.arguments:
        if argument.is_tensor:
            continue
        if not types_of_argument(argument.kind):
            if argument.kind == "other":
                remarks.append(f"{argument.name} cannot be an attribute")
            continue
        written_as: dict[str, Any] = {"from": argument.name}
        is_dim = argument.name in ("dim", "dims") and argument.kind in ("int", "ints")
        if is_dim and not operator.adds_a_dimension:
            written_as["normalize"] = "dim"
        if argument.optional:
            written_as["optional"] = True
        attributes[argument.name] = written_as if len(written_as) > 1 else argument.name
    document: dict[str, Any] = {"op": operator.qualified}
    if attributes:
        document["attributes"] = attributes
    if made := _example(operator, example):
        document["example"] = made
    return Entry(_name_of_operator(operator), operator.qualified, document, tuple(remarks))


def _example(operator: Operator, example: Mapping[str, Described]) -> dict[str, Any]:
    """The recorded call; empty if a registry file cannot say it."""
    made: dict[str, Any] = {}
    for argument in operator.arguments:
        value = example.get(argument.name, Plain(None))
        is_none = isinstance(value, Plain) and value.value is None
        if is_none and (argument.has_default or argument.optional):
            if argument.has_default and argument.default is not None and argument.name in example:
                return {}
            if not argument.has_default:
                made[argument.name] = None
            continue
        if argument.is_tensor != isinstance(value, Tensor) or isinstance(value, Other):
            return {}
        made[argument.name] = written(value)
    return made


def _name_of_function(target: str) -> str:
    *owners, name = target.partition(":")[2].split(".")
    if owners and name in ("forward", "__call__"):
        return _snake(owners[-1])
    return _snake("_".join((*owners[-1:], name)))


def _name_of_operator(operator: Operator) -> str:
    plain = operator.name.partition("::")[2].strip("_")
    return f"{plain}_{_snake(operator.overload)}" if operator.overload else plain


def _snake(name: str) -> str:
    parts = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    return re.sub(r"_+", "_", parts).strip("_")


def entry_text(entry: Entry, comment: str = "") -> str:
    """An entry as lines of a file, with comments before it."""
    dumped = yaml.safe_dump(
        {entry.name: dict(entry.document)},
        sort_keys=False,
        default_flow_style=None,
        width=_WIDTH - 2,
        allow_unicode=True,
    )
    comments = [f"# {_one_line(line)}" for line in (comment, *entry.remarks) if line]
    return "".join(f"  {line}\n" for line in (*comments, *dumped.splitlines()))


def registry_text(
    namespace: str,
    head: Sequence[str],
    entries: Iterable[tuple[Entry, str]],
    left_out: Sequence[str],
) -> str:
    """A registry file.

    Args:
        head: comments at its beginning.
        entries: each with a comment.
        left_out: comments at its end.
    """
    lines = [f"# {_one_line(line)}" for line in head]
    lines += ["schema: 1", f"namespace: {namespace}"]
    bodies = [entry_text(entry, comment) for entry, comment in entries]
    text = "\n".join(lines) + "\n"
    text += "composites:\n" + "\n".join(bodies) if bodies else "composites: {}\n"
    if left_out:
        further = len(left_out) - _MANY
        text += "\n# Left out:\n" + "".join(f"# - {_one_line(line)}\n" for line in left_out[:_MANY])
        text += f"# - and {further} more; `composites suggest --json` has all\n" * (further > 0)
    return text


def _one_line(text: str) -> str:
    return " ".join(text.split())


def checked(entry: Entry, namespace: str) -> Entry | Refused:
    """An entry, if a registry file can have it."""
    try:
        parse_registry(registry_text(namespace, (), [(entry, "")], ()), "the draft")
    except RegistryError as error:
        return Refused(error.problems[0].message)
    return entry
