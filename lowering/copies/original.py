"""Functions that this project has replaced, and their originals."""

from typing import Any

PATCH = "_composites_patch"
"""The attribute of a replacement that holds the functions that it may call."""


def original_function(value: Any) -> Any:
    """The function that `value` replaced; `value` itself if it is not a replacement."""
    while PATCH in getattr(value, "__dict__", ()):
        value = value.__wrapped__
    return value
