"""Example calls of operators, for the check of an entry.

The arguments are guessed: tensors of one small shape, and defaults or plain values for the rest. A
guess counts only if PyTorch's own kernel on the CPU accepts it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from composites.element_types import PYTORCH_NAMES
from composites.registry.model import Composite
from composites.registry.operators import Argument, Operator, find_overload

_SHAPES = ((2, 3), (4, 4), (2, 4, 4), (2, 4, 4, 4), (4,))
_VALUES = {"int": 1, "float": 1.0, "bool": False, "scalar": 1.0, "ints": [1], "bools": [True]}


def example_call(entry: Composite, operator: Operator) -> Callable[[str], Any] | None:
    """A call that the entry claims, as a function of the device; None if no guess is accepted."""
    overload = find_overload(operator)
    for shape in _shapes(entry):
        values = {a.name: _value(a, entry, shape) for a in operator.arguments}
        if any(value is ... for value in values.values()):
            return None
        positional = [values[a.name] for a in operator.arguments if not a.keyword_only]
        keywords = {a.name: values[a.name] for a in operator.arguments if a.keyword_only}

        def call(device: str, positional: Any = positional, keywords: Any = keywords) -> Any:
            def placed(value: Any) -> Any:
                return value.to(device) if isinstance(value, torch.Tensor) else value

            named = {name: placed(value) for name, value in keywords.items()}
            return overload(*map(placed, positional), **named)

        try:
            call("cpu")
        except Exception:
            continue
        return call
    return None


def _shapes(entry: Composite) -> Iterator[tuple[int, ...]]:
    ranks = entry.when.ranks
    return (shape for shape in _SHAPES if not ranks or len(shape) in ranks)


def _value(argument: Argument, entry: Composite, shape: tuple[int, ...]) -> Any:
    """A plain value of an argument, or `...` if there is none."""
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
    return _VALUES.get(argument.kind, ...)


def _tensor(entry: Composite, shape: tuple[int, ...]) -> torch.Tensor:
    dtype = torch.float32
    if entry.when.dtypes:
        dtype = getattr(torch, PYTORCH_NAMES[entry.when.dtypes[0]])
    size = torch.Size(shape)
    return torch.arange(1, size.numel() + 1).div(size.numel()).reshape(size).to(dtype)
