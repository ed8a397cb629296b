"""Lists that were read, from YAML, JSON or arrays, as immutable values."""

from typing import Any


def frozen(value: Any) -> Any:
    """A list, and the lists in it, as tuples; any other value as it is."""
    return tuple(map(frozen, value)) if isinstance(value, list) else value
