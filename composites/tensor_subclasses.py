"""Tensors that hold other tensors, such as a quantized weight with its integers and scales.

These are PyTorch's wrapper subclasses, which have `__tensor_flatten__`. Programs take the tensors
within them, under the names of their attributes: `weight.qdata`, `weight.scale`. PyTorch is not
imported here, so that values of inputs are read without it.
"""

from collections.abc import Callable, Iterator
from typing import Any


def inner_tensors(name: str, tensor: Any) -> Iterator[tuple[str, Any]]:
    """The tensors that a tensor holds, at any depth, by name. A plain one is its only one."""
    if not _is_wrapper(tensor):
        yield name, tensor
        return
    for attribute in tensor.__tensor_flatten__()[0]:
        yield from inner_tensors(f"{name}.{attribute}", getattr(tensor, attribute))


def with_inner_tensors(name: str, tensor: Any, replaced: Callable[[str, Any], Any]) -> Any:
    """A tensor of the same class that holds `replaced(name, inner)` in the place of each of
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
