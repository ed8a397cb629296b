"""Entries for functions and operators, as a registry file with comments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import yaml

from composites.attribute_types import types_of_argument
from composites.registry.model import Tensor
from composites.registry.operators import Operator, UnknownOperatorError, find_operator
from lowering.suggestion.functions import Callee
from lowering.suggestion.values import NUMBERS_AND_WORDS, Other, written

_WIDTH = 98
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


def of_function(function: Callee) -> Entry | str:
    """An entry for a Python function, from its first call in the step; or why there is none."""
    if not function.only_tensors or function.results is None:
        return "it returns something else than tensors"
    if function.problem:
        return function.problem
    operands: list[str] = []
    attributes: dict[str, str] = {}
    remarks: list[str] = []
    for path, value in function.reads.items():
        name = path.rpartition(".")[2]
        if isinstance(value, Tensor):
            operands.append(path)
        elif _is_attribute(value):
            attributes[path.replace(".", "_") if name in attributes else name] = path
        else:
            shown = str(value).removeprefix("torch.")
            remarks.append(
                f"{path} was {shown}; if it can be something else, decide whether it is an operand"
                " or an attribute"
            )
    if not operands:
        return "it takes no tensor that an entry could list as an operand"
    document: dict[str, Any] = {"function": function.name, "operands": operands}
    document["attributes"] = attributes
    document["backward"] = "derive" if function.differentiable else None
    example = {n: written(value) for n, value in function.arguments.items() if value is not None}
    is_method = "." in function.name.partition(":")[2]
    if not is_method and not any(isinstance(value, Other) for value in example.values()):
        document["example"] = example
    return _entry(function.name, document, remarks)


def _is_attribute(value: Any) -> bool:
    items = value if isinstance(value, list) else [value]
    kinds = {type(item) for item in items}
    is_list_of_words = isinstance(value, list) and kinds == {str}
    return len(kinds) == 1 and kinds <= {*NUMBERS_AND_WORDS} and not is_list_of_words


def of_operator(callee: Callee) -> Entry | str:
    """An entry for an operator, from its schema and its first call in the step; or why there is
    none."""
    try:
        operator = find_operator(callee.name)
    except UnknownOperatorError as error:
        return str(error)
    tags = getattr(callee.overload, "tags", ())
    if operator.name.endswith("_copy") or operator.mutates:
        return "it only moves data"
    if torch.Tag.nondeterministic_seeded in tags:
        return "it draws random numbers"
    if torch.Tag.core in tags and torch.Tag.pointwise in tags:
        return "it is elementary; catch the function that calls it"
    attributes: dict[str, Any] = {}  # `from` is the argument of the same name
    remarks: list[str] = []
    for argument in operator.arguments:
        if argument.kind == "other":
            remarks.append(f"{argument.name} cannot be an attribute")
        if argument.is_tensor or not types_of_argument(argument.kind):
            continue
        attribute: dict[str, Any] = {}
        is_dim = argument.name in ("dim", "dims") and argument.kind in ("int", "ints")
        if is_dim and not operator.adds_a_dimension:
            attribute["normalize"] = "dim"
        if argument.optional:
            attribute["optional"] = True
        attributes[argument.name] = attribute
    document: dict[str, Any] = {"op": operator.qualified, "attributes": attributes}
    document["example"] = _example(operator, callee.arguments)
    return _entry(operator.qualified, document, remarks)


def _example(operator: Operator, call: Mapping[str, Any]) -> dict[str, Any]:
    """The recorded call; empty if a registry file cannot say it."""
    example: dict[str, Any] = {}
    for argument in operator.arguments:
        value = call.get(argument.name)
        if value is None and (argument.has_default or argument.optional):
            if argument.has_default and argument.default is not None and argument.name in call:
                return {}
            if not argument.has_default:
                example[argument.name] = None
            continue
        if argument.is_tensor != isinstance(value, Tensor) or isinstance(value, Other):
            return {}
        example[argument.name] = written(value)
    return example


def _entry(caught: str, document: Mapping[str, Any], remarks: Sequence[str]) -> Entry:
    """An entry without the keys that have no value, and with a name: `rms_norm` for
    `RMSNorm.forward`, `mean_dim` for `aten::mean.dim`."""
    words = caught.rpartition(":")[2].split(".")[-2:]
    if len(words) > 1 and words[-1] in ("forward", "__call__"):
        words.pop()
    capitals = r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])"
    name = re.sub(r"_+", "_", re.sub(capitals, "_", "_".join(words)).lower()).strip("_")
    return Entry(name, caught, {k: v for k, v in document.items() if v}, tuple(remarks))


def registry_text(
    namespace: str,
    entries: Iterable[tuple[Entry, str]],
    head: Sequence[str] = (),
    left_out: Sequence[str] = (),
) -> str:
    """A registry file.

    Args:
        entries: each with a comment.
        head: comments at its beginning.
        left_out: comments at its end.
    """
    lines = [f"# {line}" for line in head]
    lines += ["schema: 1", f"namespace: {namespace}", "composites:"]
    for entry, comment in entries:
        dumped = yaml.safe_dump(
            {entry.name: dict(entry.document)},
            sort_keys=False,
            default_flow_style=None,
            width=_WIDTH,
            allow_unicode=True,
        )
        comments = [f"# {_one_line(text)}" for text in (comment, *entry.remarks) if text]
        lines += [f"  {line}" for line in (*comments, *dumped.splitlines())]
        lines.append("")
    if left_out:
        lines.append("# Left out:")
        lines += [f"# - {_one_line(text)}" for text in left_out[:_MANY]]
    if len(left_out) > _MANY:
        further = len(left_out) - _MANY
        lines.append(f"# - and {further} more; `composites suggest --json` has all")
    return "\n".join(lines).rstrip("\n") + "\n"


def _one_line(text: str) -> str:
    return " ".join(text.split())
