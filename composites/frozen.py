"""Convert lists from YAML, JSON or arrays to immutable values."""

from typing import Any


def frozen(value: Any) -> Any:
    """Convert a list, and all lists in it, to tuples; return any other value unchanged."""
    return tuple(map(frozen, value)) if isinstance(value, list) else value
