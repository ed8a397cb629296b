"""Results of a graph that share memory with an input or with another result.

Autograd saves transposed weights, and a model may return a tensor and a view of it. XLA would
return a separate tensor for each result.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from composites.torch_internals import storage_key
from lowering.live.strides import memory_order


@dataclass(frozen=True, slots=True)
class View:
    """A result that is a view of an input, or of another result."""

    is_of_input: bool
    position: int
    """The position of the input or of the result that is viewed."""
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    """The offset from the first element of the viewed tensor."""

    def apply_to(self, tensor: torch.Tensor) -> torch.Tensor:
        """The view of a tensor."""
        plain = tensor.detach()
        return plain.as_strided(self.size, self.stride, plain.storage_offset() + self.offset)


def views_among(
    placeholders: Sequence[torch.fx.Node], returned: Sequence[Any]
) -> Mapping[int, View]:
    """The results that are views, by their positions.

    Args:
        placeholders: the inputs of a graph, whose `meta["val"]` has fake tensors.
        returned: the results of the graph. Inputs that it returns as they are do not count.
    """
    owners: dict[int, tuple[bool, int, torch.Tensor]] = {}
    for position, node in enumerate(placeholders):
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            owners.setdefault(storage_key(value), (True, position, value))
    results = {
        position: node.meta["val"]
        for position, node in enumerate(returned)
        if isinstance(node, torch.fx.Node)
        and isinstance(node.meta.get("val"), torch.Tensor)
        and node not in placeholders
    }
    # Sort results that are views after the tensors that they are views of.
    for position in sorted(results, key=lambda n: getattr(returned[n].target, "is_view", False)):
        value = results[position]
        has_no_gaps = value.is_contiguous() or memory_order(value) is not None
        if has_no_gaps and not value.storage_offset():
            owners.setdefault(storage_key(value), (False, position, value))
    views: dict[int, View] = {}
    for position, value in results.items():
        owner = owners.get(storage_key(value))
        if owner is None or owner[:2] == (False, position) or not _is_inside(value, owner[2]):
            continue
        offset = value.storage_offset() - owner[2].storage_offset()
        size, stride = tuple(map(int, value.shape)), tuple(map(int, value.stride()))
        views[position] = View(owner[0], owner[1], size, stride, int(offset))
    return views


def _is_inside(view: torch.Tensor, base: torch.Tensor) -> bool:
    """Return whether all elements of a view are elements of `base`, read in the same way."""
    is_read_alike = (
        view.dtype == base.dtype
        and view.is_conj() == base.is_conj()
        and view.is_neg() == base.is_neg()
    )
    if not is_read_alike or not view.numel():
        return False
    first = view.storage_offset() - base.storage_offset()
    return first >= 0 and first + _reach(view) <= _reach(base)


def _reach(tensor: torch.Tensor) -> int:
    """The distance from the first element to the last, in elements."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return sum((int(size) - 1) * int(stride) for size, stride in pairs)
