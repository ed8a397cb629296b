"""Decompositions of views by strides. A traced tensor has no memory. If its elements would be in
order there, a view takes them by index."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from composites.registry.operators import overload
from lowering.frontends.errors import NoKernelError
from lowering.frontends.fx import AUTOGRAD_KEY, DISPATCH_KEY, capture


def as_strided(
    self: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """See aten::as_strided.

    Raises:
        NoKernelError: it is not known how `self` would lie in memory.
    """
    # torch 2.9: the decomposition of native_group_norm, which is recorded apart from programs.
    has_known_order = capture.current_apart() is not None or _is_mean_of_channels(self)
    if has_known_order and _keeps_order(self, size, stride, storage_offset):
        return self.reshape(tuple(size))
    _check_order(self)
    made = strided_view(self.reshape(-1), size, stride, storage_offset)
    capture.traced(made).node.meta[capture.REORDERED] = True  # its memory is that of `self`
    return made


def _is_mean_of_channels(self: Tensor) -> bool:
    """Return whether a tensor is the mean of each channel, as adaptive pooling to one element takes
    it where channels are last. Its elements are in order."""
    name = getattr(capture.traced(self).node.target, "name", lambda: "")()
    return name == "aten::mean.dim" and all(size == 1 for size in self.shape[2:])


def strided_view(
    flat: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None
) -> Tensor:
    """A view by strides of elements that lie in order."""
    places = _places(flat, size, stride, storage_offset)
    return flat.index_select(0, places).reshape(tuple(size))


def as_strided_scatter(
    self: Tensor,
    src: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Tensor:
    """See aten::as_strided_scatter.

    Raises:
        NoKernelError: see `as_strided`.
    """
    _check_order(self)
    return strided_write(self.reshape(-1), src, size, stride, storage_offset).reshape(self.shape)


def strided_write(
    flat: Tensor,
    src: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None,
) -> Tensor:
    """Elements that lie in order, with those of a view by strides replaced."""
    return flat.scatter(0, _places(flat, size, stride, storage_offset), src.reshape(-1))


def _keeps_order(
    tensor: Tensor, size: Sequence[int], stride: Sequence[int], offset: int | None
) -> bool:
    """Return whether a view only changes the shape of a tensor."""
    after = torch.empty_strided(tuple(size), tuple(stride), device="meta")
    is_whole = not offset and after.numel() == tensor.numel()
    return is_whole and after.is_contiguous() and tensor.is_contiguous()


def _check_order(tensor: Tensor) -> None:
    if not (tensor.is_contiguous() and _is_in_order(capture.traced(tensor).node)):
        raise NoKernelError(
            "aten::as_strided depends on the memory layout of the tensor, which an exported"
            " program does not know here; call it on a tensor that is not transposed or sliced,"
            " or write the view with slices"
        )


def _is_in_order(node: torch.fx.Node) -> bool:
    """Return whether PyTorch keeps the elements in the order of the dimensions, as in an input.

    Functionalization copies what PyTorch views, so strides do not say this.
    """
    seen: set[torch.fx.Node] = set()
    pending = [node]
    while pending:
        one = pending.pop()
        if one.meta.get(capture.REORDERED):
            return False
        enclosing = one.meta.get(capture.ENCLOSING)
        pending.extend([] if enclosing is None else [enclosing])
        if one in seen or one.op in ("placeholder", "get_attr"):
            continue
        seen.add(one)
        name = getattr(one.target, "name", lambda: "")().partition(".")[0]
        if name in _NEW:
            continue
        if name in _SAME_ORDER:
            pending.append(one.all_input_nodes[0])
        elif name in _KEEPING_FORMAT and one.meta["val"].dim() not in _WITH_CHANNELS:
            continue
        elif name in _KEEPING_FORMAT or torch.Tag.pointwise in getattr(one.target, "tags", ()):
            pending.extend(one.all_input_nodes)
        else:
            return False
    return True


_NEW = frozenset(
    f"aten::{name}"
    for name in (
        "_unsafe_index", "arange", "empty", "full", "index_select", "mm", "new_empty",
        "new_empty_strided", "new_full", "new_ones", "new_zeros", "ones", "reflection_pad1d",
        "scalar_tensor", "stack", "zeros",
    )
)  # fmt: skip
"""Operators whose results are in order, whatever their operands are."""

_SAME_ORDER = frozenset(
    f"aten::{name}"
    for name in (
        "_to_copy", "_unsafe_view", "clone", "copy", "empty_like", "full_like",
        "index_add", "index_put", "ones_like", "reshape", "scatter", "scatter_add", "squeeze",
        "squeeze_copy", "unsqueeze", "unsqueeze_copy", "view", "view_copy", "zeros_like",
    )
)  # fmt: skip
"""Operators whose results are in order if their first operands are. Of pointwise ones, all operands
have to be."""

_KEEPING_FORMAT = frozenset(["aten::cat", "aten::constant_pad_nd"])
_WITH_CHANNELS = (4, 5)
"""Operators whose results of so many dimensions have their channels last if those of an operand are
last. All other results of theirs are in order."""


def _places(
    tensor: Tensor, size: Sequence[int], stride: Sequence[int], offset: int | None
) -> Tensor:
    """The index in the tensor of each element of the view."""
    places = torch.full((), offset or 0, dtype=torch.int64, device=tensor.device)
    for length, step in zip(size, stride, strict=True):
        numbers = torch.arange(length, device=tensor.device) * step
        places = places.unsqueeze(-1) + numbers
    return places.reshape(-1)


capture.OWN.update(
    {
        overload("aten::as_strided"): as_strided,
        overload("aten::as_strided_scatter"): as_strided_scatter,
    }
)


@cache
def define_operators() -> torch.library.Library:
    """Register operators for the device of traced tensors, for the life of the process:
    `aten::as_strided_`, which changes the sizes of a tensor and which this device alone lacks
    (torch 2.15.0), and `aten::one_hot`, of which PyTorch 2.10 reads the values there."""
    name = "aten::as_strided_"
    of_others = torch.library.get_kernel(name, "CPU").call_boxed

    def kernel(keys: Any, *arguments: Any) -> Any:
        return of_others(keys, *arguments)

    library = torch.library.Library("aten", "IMPL")
    library.impl("as_strided_", kernel, DISPATCH_KEY, with_keyset=True)
    if torch.__version__ < "2.11":  # compares as versions
        library.impl("one_hot", one_hot, AUTOGRAD_KEY)
    return library


def one_hot(tensor: torch.Tensor, num_classes: int = -1) -> torch.Tensor:
    """`torch.nn.functional.one_hot`, which reads no value if the number of classes is known."""
    count = num_classes if num_classes >= 0 else int(tensor.max().item()) + 1
    return (tensor.unsqueeze(-1) == torch.arange(count, device=tensor.device)).long()
