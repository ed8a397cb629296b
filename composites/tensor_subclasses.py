"""Tensors that hold other tensors, such as a quantized weight with its integers and scales.

They are PyTorch's wrapper subclasses, which have `__tensor_flatten__`. Programs take the inner
tensors, under the names of their attributes: `weight.qdata`, `weight.scale`. This module does not
import PyTorch, because values of inputs are read without it.
"""

from collections.abc import Callable, Iterator
from typing import Any


def inner_tensors(name: str, tensor: Any) -> Iterator[tuple[str, Any]]:
    """Yield the tensors that a tensor holds, at any depth, by name: itself if it is plain."""
    if not _is_wrapper(tensor):
        yield name, tensor
        return
    for attribute in tensor.__tensor_flatten__()[0]:
        yield from inner_tensors(f"{name}.{attribute}", getattr(tensor, attribute))


def with_inner_tensors(name: str, tensor: Any, replaced: Callable[[str, Any], Any]) -> Any:
    """Return a tensor of the same class with `replaced(name, inner)` instead of each of its
    `inner_tensors`."""
    if not _is_wrapper(tensor):
        return replaced(name, tensor)
    attributes, context = tensor.__tensor_flatten__()
    inner = {
        attribute: with_inner_tensors(f"{name}.{attribute}", getattr(tensor, attribute), replaced)
        for attribute in attributes
    }
    made = type(tensor).__tensor_unflatten__(inner, context, tensor.size(), tensor.stride())
    return made.requires_grad_(tensor.requires_grad)


def _is_wrapper(tensor: Any) -> bool:
    return hasattr(tensor, "__tensor_flatten__") and not tensor.is_nested
