"""Example calls of operators, for the check of an entry.

The arguments are guessed: tensors of one small shape, and defaults or plain values for the rest. A
guess counts only if PyTorch's own kernel on the CPU accepts it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import torch

from composites.element_types import PYTORCH_NAMES
from composites.registry.model import Composite
from composites.registry.operators import Argument, Operator, find_overload

_SHAPES = ((2, 3), (4, 4), (2, 4, 4), (2, 4, 4, 4), (4,))
_VALUES = {"int": 1, "float": 1.0, "bool": False, "scalar": 1.0, "ints": [1], "bools": [True]}


def example_call(entry: Composite, operator: Operator) -> Callable[[str], Any] | None:
    """A call that the entry claims, as a function of the device; None if no guess is accepted."""
    return _accepted_call(entry, operator, {})


def refused_words(entry: Composite, operator: Operator) -> Iterator[tuple[str, str, str]]:
    """Words in the entry's conditions on arguments that the operator accepts for no call: the
    argument, the word, and what the operator says."""
    for name, values in entry.when.values:
        argument = operator.argument(name)
        if argument is None or argument.kind != "string" or not argument.has_default:
            continue
        usual = _accepted_call(entry, operator, {name: argument.default})
        if usual is None:
            continue  # it may be the guessed arguments that the operator refuses
        for value in values:
            try:
                usual("cpu", {name: value})
            except Exception as error:
                yield name, value, str(error).partition("\n")[0]


def _accepted_call(
    entry: Composite, operator: Operator, given: Mapping[str, Any]
) -> Callable[..., Any] | None:
    for shape in _shapes(entry):
        try:
            call = _call(entry, operator, shape, given)
            call("cpu")
        except Exception:  # whatever a kernel raises; the guess was wrong
            continue
        return call
    return None


def _call(
    entry: Composite, operator: Operator, shape: tuple[int, ...], given: Mapping[str, Any]
) -> Callable[..., Any]:
    overload = find_overload(operator)
    guessed = {a.name: _value(a, entry, shape) for a in operator.arguments} | dict(given)
    keyword_only = {a.name for a in operator.arguments if a.keyword_only}

    def call(device: str, changed: Mapping[str, Any] = MappingProxyType({})) -> Any:
        placed = {
            name: value.to(device) if isinstance(value, torch.Tensor) else value
            for name, value in (guessed | dict(changed)).items()
        }
        positional = [value for name, value in placed.items() if name not in keyword_only]
        return overload(*positional, **{name: placed[name] for name in keyword_only})

    return call


def _shapes(entry: Composite) -> Iterator[tuple[int, ...]]:
    ranks = entry.when.ranks
    return (shape for shape in _SHAPES if not ranks or len(shape) in ranks)


def _value(argument: Argument, entry: Composite, shape: tuple[int, ...]) -> Any:
    """A plain value of an argument.

    Raises:
        LookupError: none is known.
    """
    if argument.is_tensor:
        if argument.optional and argument.name not in entry.operands:
            return None
        return _tensor(entry, shape)
    allowed = dict(entry.when.values).get(argument.name)
    if allowed:
        return allowed[0]
    if argument.has_default:
        return argument.default
    if argument.optional:
        return None
    return _VALUES[argument.kind]


def _tensor(entry: Composite, shape: tuple[int, ...]) -> torch.Tensor:
    dtype = torch.float32
    if entry.when.dtypes:
        dtype = getattr(torch, PYTORCH_NAMES[entry.when.dtypes[0]])
    size = torch.Size(shape)
    return torch.arange(1, size.numel() + 1).div(size.numel()).reshape(size).to(dtype)
