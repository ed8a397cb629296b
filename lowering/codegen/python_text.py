"""Constants and signatures as Python source."""

import math
from typing import Any

import torch

from composites.errors import UnusableFunctionError
from composites.registry.operators import ANNOTATIONS, Operator


def literal(value: Any) -> str:
    """A constant as source. Values of subclasses, such as enumerations, are written as their base.

    Raises:
        UnusableFunctionError: the constant cannot be written.
    """
    if value is None or isinstance(value, bool | torch.dtype | torch.Size):
        return repr(value)
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, tuple):
        return written_tuple([literal(item) for item in value])
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{float(value)}')"
    for type_ in (int, float, str):
        if isinstance(value, type_):
            return type_.__repr__(value)
    raise UnusableFunctionError(
        f"the default value {value!r} cannot be written as source; a composite can depend on"
        " None, numbers, strings, dtypes, and lists and tuples of these"
    )


def written_tuple(items: list[str]) -> str:
    """A tuple of expressions."""
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


def written_parameters(operator: Operator) -> list[str]:
    """The parameters of a function that takes an operator's arguments."""
    written: list[str] = []
    for argument in operator.arguments:
        if argument.keyword_only and "*" not in written:
            written.append("*")
        hint = ANNOTATIONS[argument.kind] + (" | None" if argument.optional else "")
        default = f" = {literal(argument.default)}" if argument.has_default else ""
        written.append(f"{argument.name}: {hint}{default}")
    return written
