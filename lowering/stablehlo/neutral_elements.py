"""The number that leaves every other as it is, for what reductions and scatters apply."""

from __future__ import annotations

from math import inf

from .dtypes import numpy_dtype

_FLOATS = {"add": -0.0, "multiply": 1.0, "maximum": -inf, "minimum": inf}
"""The neutral elements of floats, also for the sign of zero: -0.0 + -0.0 is -0.0."""


def neutral_element(operation: str, element: str) -> str | None:
    """The neutral element as MLIR writes it, by its bits; None if there is none.

    Args:
        operation: the name without its dialect, such as `add`.
        element: an element type, such as `bf16`.
    """
    import numpy as np

    dtype = numpy_dtype(element)
    if element == "i1":
        return {"or": "false", "maximum": "false", "and": "true", "minimum": "true"}.get(operation)
    if element.startswith(("i", "ui")):
        limits = np.iinfo(dtype)
        # All bits of a number are 1 for -1 of signed types, and for the greatest of others.
        ones = -1 if limits.min < 0 else limits.max
        numbers = {"add": 0, "or": 0, "multiply": 1, "and": ones}
        numbers |= {"maximum": limits.min, "minimum": limits.max}
        return str(numbers[operation]) if operation in numbers else None
    if operation not in _FLOATS or "complex" in element:
        return None
    return f"0x{np.full((), _FLOATS[operation], dtype).tobytes()[::-1].hex().upper()}"
