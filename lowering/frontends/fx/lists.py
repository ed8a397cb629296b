"""Decompositions of operators on lists of tensors, `aten::_foreach_add` and the like: one call for
each tensor. Optimizers and `torch.nn.utils.clip_grad_norm_` call them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from composites import torch_internals
from lowering.frontends.aten_in_jax.table import overload

_PREFIX = "aten::_foreach_"


def _maximum(tensor: Any, other: Any) -> Any:
    return torch.maximum(tensor, other) if _is_tensor(other) else tensor.clamp_min(other)


def _minimum(tensor: Any, other: Any) -> Any:
    return torch.minimum(tensor, other) if _is_tensor(other) else tensor.clamp_max(other)


def _norm(tensor: Any, order: Any = 2, dtype: Any = None) -> Any:
    return torch.linalg.vector_norm(tensor, order, dtype=dtype)


def _copied(tensor: Any, source: Any, non_blocking: bool = False) -> Any:
    return source.to(tensor.dtype).expand_as(tensor).clone()


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


_OF_ONE: Mapping[str, Callable[..., Any]] = {
    "clamp_max": _minimum,
    "clamp_min": _maximum,
    "copy": _copied,
    "max": lambda tensor: tensor.amax(),
    "maximum": _maximum,
    "minimum": _minimum,
    "norm": _norm,
    "zero": torch.zeros_like,
}
"""Operators on one tensor that have another name, or other arguments."""


def _each(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> list[Any]:
    """Call a function for each tensor. Lists give each call its own element."""
    count = next(len(value) for value in arguments if isinstance(value, list | tuple))

    def of(place: int, value: Any) -> Any:
        return value[place] if isinstance(value, list | tuple) else value

    return [
        function(
            *(of(place, value) for value in arguments),
            **{name: of(place, value) for name, value in keywords.items()},
        )
        for place in range(count)
    ]


def _values_of(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> list[Any]:
    """The same with a tensor of numbers as the last argument, one for each call."""
    *given, numbers = arguments
    return _each(function, *given, list(numbers.unbind()), **keywords)


def decompositions() -> dict[Any, Callable[..., Any]]:
    """By overload."""
    made: dict[Any, Callable[..., Any]] = {}
    for name in torch_internals.operator_names():
        plain = name.removeprefix(_PREFIX)
        function = _OF_ONE.get(plain) or getattr(torch, plain, None)
        if plain == name or plain.endswith("_") or function is None:
            continue
        for schema in torch_internals.schemas_of(name):
            kind = schema.overload_name
            if kind == "out" or kind.endswith("_out"):
                continue
            of_values = kind == "Tensor" and plain in ("addcdiv", "addcmul")
            each: Callable[..., Sequence[Any]] = _values_of if of_values else _each
            full = f"{name}.{kind}" if kind else name
            made[overload(full)] = partial(each, _valued(plain, function))
    return made


def _valued(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.addcmul` takes its factor by name."""
    if name not in ("addcdiv", "addcmul"):
        return function

    def call(tensor: Any, first: Any, second: Any, value: Any = 1) -> Any:
        if _is_tensor(value):
            product = first * second if name == "addcmul" else first / second
            return tensor + product * value
        return function(tensor, first, second, value=value)

    return call
