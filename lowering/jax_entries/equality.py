"""Whether two traced functions are the same operations on the same operands."""

from __future__ import annotations

from typing import Any


def is_same(one: Any, other: Any) -> bool:
    """Whether two closed jaxprs print the same, with their variables numbered in order."""
    return str(one) == str(other)
