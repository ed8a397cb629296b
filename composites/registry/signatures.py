"""Describe Python functions like operators, so that the same code handles both."""

import inspect
import sys
import typing
from collections.abc import Callable, Sequence
from types import NoneType, UnionType
from typing import Any

import torch

from composites.attribute_types import ArgumentKind
from composites.errors import UnusableFunctionError
from composites.functions import find_function, named_signature
from composites.registry.model import Composite
from composites.registry.operators import Argument, Operator, find_operator

_KINDS: dict[Any, ArgumentKind] = {
    torch.Tensor: "tensor", int: "int", float: "float", bool: "bool", str: "string",
    torch.dtype: "dtype",
}  # fmt: skip
_LIST_KINDS: dict[Any, ArgumentKind] = {
    int: "ints", float: "floats", bool: "bools", torch.Tensor: "tensors",
    torch.Tensor | None: "optional_tensors",
}  # fmt: skip


def callee_of(entry: Composite) -> Operator | None:
    """Return the signature of an entry's decomposition; None for a Python function, whose module
    need not be installed."""
    if entry.adapt is not None or entry.gradients:
        return describe_target(entry.decomposition.target)
    return None if entry.op is None else find_operator(entry.op)


def describe_target(target: str | None) -> Operator | None:
    """Import a function and describe it; None for the stock lowering.

    Raises:
        UnusableFunctionError: the function does not exist, or cannot be described.
    """
    return None if target is None else describe_function(find_function(target), target)


def describe_function(function: Callable[..., Any], target: str) -> Operator:
    """Describe a function's arguments by their annotations. An argument without an annotation is of
    kind `other`.

    Raises:
        UnusableFunctionError: the function takes `*args` or `**kwargs`, or its signature cannot be
            read.
    """
    signature = named_signature(function, target)
    try:
        hints = typing.get_type_hints(function)
    except Exception:  # an annotation uses a name that only type checkers import
        hints = {}
    arguments = [_argument(p, hints.get(p.name)) for p in signature.parameters.values()]
    return Operator(
        name=target,
        overload="",
        arguments=tuple(arguments),
        results=(),
        mutates=False,
        implicit_autograd=False,
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
    if _is_jax_array(hint):
        return "tensor"
    origin = typing.get_origin(hint)
    if isinstance(origin, type) and issubclass(origin, Sequence):
        items = {item for item in typing.get_args(hint) if item is not Ellipsis}
        item = items.pop() if len(items) == 1 else None
        return "tensors" if _is_jax_array(item) else _LIST_KINDS.get(item, "other")
    return "other"


def _is_jax_array(hint: Any) -> bool:
    """Return True if a type hint is `jax.Array`. Code with such a hint has imported jax."""
    jax = sys.modules.get("jax")
    return jax is not None and hint is getattr(jax, "Array", None) and hint is not None


def check_signature(function: Callable[..., Any], target: str, operator: Operator) -> None:
    """Check that a function accepts the operator's arguments.

    Positional arguments may have any names. Keyword-only arguments are passed by name.

    Raises:
        UnusableFunctionError: it does not. The message has a signature that fits.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some built-in functions have no readable signature
        return
    positional = [argument for argument in operator.arguments if not argument.keyword_only]
    keywords = {argument.name: None for argument in operator.arguments if argument.keyword_only}
    try:
        signature.bind(*positional, **keywords)
    except TypeError as error:
        name = target.rpartition(":")[2]
        fitting = f"def {name}({', '.join(_parameters(operator))})"
        raise UnusableFunctionError(
            f"{target}{signature} does not take the arguments of {operator.qualified}"
            f" ({error}); write {fitting}"
        ) from error


def _parameters(operator: Operator) -> list[str]:
    written: list[str] = []
    for argument in operator.arguments:
        if argument.keyword_only and "*" not in written:
            written.append("*")
        written.append(_parameter(argument))
    return written


def _parameter(argument: Argument) -> str:
    return f"{argument.name}={argument.default!r}" if argument.has_default else argument.name
