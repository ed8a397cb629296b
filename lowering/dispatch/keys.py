"""Hashable keys of arguments without a schema, on which a call's composite depends."""

from typing import Any, Final

import torch

from composites import torch_internals
from composites.attribute_types import key_of

UNKNOWN: Final = object()
"""The key of a value that no composite can depend on."""

VALUES = (int, float, str, torch.dtype, type(None))
"""Types of the values that a composite can depend on, alone or in lists. A bool is an int."""


def tensor_key(value: Any) -> Any:
    """Shape and dtype of a tensor, or of each tensor of a list; None for an absent tensor."""
    if value is None:
        return None
    if isinstance(value, torch.Tensor):
        return (value.shape, value.dtype)
    if isinstance(value, list | tuple) and all(isinstance(item, torch.Tensor) for item in value):
        return (isinstance(value, tuple), *((item.shape, item.dtype) for item in value))
    return UNKNOWN


def owner_key(value: Any) -> Any:
    """The class of an object whose method is called, or the class itself."""
    return value if isinstance(value, type) else type(value)


def value_key(value: Any) -> Any:
    """The key of a value, with properties in which equal values can differ, such as the type."""
    if isinstance(value, list | tuple):
        items = tuple(value_key(item) for item in value)
        return UNKNOWN if UNKNOWN in items else items
    is_supported = isinstance(value, VALUES) or torch_internals.is_key(value)
    return key_of(value) if is_supported else UNKNOWN
