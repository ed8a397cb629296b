"""Python functions described as operators are, so that one code serves both."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Sequence
from types import NoneType, UnionType
from typing import Any

import torch

from composites.registry.named_arguments import named_signature
from composites.registry.operators import Argument, ArgumentKind, Operator

_KINDS: dict[Any, ArgumentKind] = {
    torch.Tensor: "tensor",
    int: "int",
    float: "float",
    bool: "bool",
    str: "string",
    torch.dtype: "dtype",
}
_LIST_KINDS: dict[Any, ArgumentKind] = {int: "ints", float: "floats", bool: "bools"}


def describe_function(function: Callable[..., Any], target: str) -> Operator:
    """A function's arguments by its annotations; what is not annotated is of kind `other`.

    Raises:
        UnusableFunctionError: it takes `*args` or `**kwargs`, or has no signature to read.
    """
    signature = named_signature(function, target)
    try:
        hints = typing.get_type_hints(function)
    except Exception:  # a name that only a type checker imports
        hints = {}
    arguments = [_argument(p, hints.get(p.name)) for p in signature.parameters.values()]
    return Operator(
        name=target,
        overload="",
        arguments=tuple(arguments),
        results=(),
        mutates=False,
        dissolves=False,
        schema=f"{target}{signature}",
    )


def _argument(parameter: inspect.Parameter, hint: Any) -> Argument:
    options = [hint]
    if typing.get_origin(hint) in (typing.Union, UnionType):
        options = [option for option in typing.get_args(hint) if option is not NoneType]
    kind: ArgumentKind = _kind(options[0]) if len(options) == 1 else "other"
    has_default = parameter.default is not parameter.empty
    return Argument(
        name=parameter.name,
        kind=kind,
        optional=options != [hint] or (has_default and parameter.default is None) or hint is None,
        keyword_only=parameter.kind is parameter.KEYWORD_ONLY,
        has_default=has_default,
        default=parameter.default if has_default else None,
    )


def _kind(hint: Any) -> ArgumentKind:
    if hint in _KINDS:
        return _KINDS[hint]
    origin = typing.get_origin(hint)
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return _LIST_KINDS.get(typing.get_args(hint)[0], "other")
    return "other"
