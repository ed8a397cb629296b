"""Decompositions of views by strides. A traced tensor has no memory. If its elements would lie in
order in memory, a view takes them by index."""

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
        NoKernelError: the memory layout of `self` is unknown.
    """
    # torch 2.9: the decomposition of native_group_norm, which is recorded outside of programs.
    is_in_order = capture.current_apart() is not None or _is_mean_of_channels(self)
    if is_in_order and _keeps_order(self, size, stride, storage_offset):
        return self.reshape(tuple(size))
    _check_order(self)
    made = strided_view(self.reshape(-1), size, stride, storage_offset)
    capture.traced(made).node.meta[capture.REORDERED] = True  # its memory is that of `self`
    return made


def _is_mean_of_channels(self: Tensor) -> bool:
    """Return whether a tensor is the mean of each channel, which adaptive pooling to one element
    views by strides if channels are last. Its elements are in order."""
    name = getattr(capture.traced(self).node.target, "name", lambda: "")()
    return name == "aten::mean.dim" and all(size == 1 for size in self.shape[2:])


def strided_view(
    flat: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None
) -> Tensor:
    """A view by strides of elements that lie in order."""
    indices = _view_indices(flat, size, stride, storage_offset)
    return flat.index_select(0, indices).reshape(tuple(size))


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
    return flat.scatter(0, _view_indices(flat, size, stride, storage_offset), src.reshape(-1))


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

    Functionalization copies where PyTorch makes views, so strides do not show the order.
    """
    seen: set[torch.fx.Node] = set()
    pending = [node]
    while pending:
        current = pending.pop()
        if current.meta.get(capture.REORDERED):
            return False
        enclosing = current.meta.get(capture.ENCLOSING)
        pending.extend([] if enclosing is None else [enclosing])
        if current in seen or current.op in ("placeholder", "get_attr"):
            continue
        seen.add(current)
        name = getattr(current.target, "name", lambda: "")().partition(".")[0]
        if name in _NEW:
            continue
        if name in _SAME_ORDER:
            pending.append(current.all_input_nodes[0])
        elif name in _KEEPING_FORMAT and current.meta["val"].dim() not in _WITH_CHANNELS:
            continue
        elif name in _KEEPING_FORMAT or torch.Tag.pointwise in getattr(current.target, "tags", ()):
            pending.extend(current.all_input_nodes)
        else:
            return False
    return True


_NEW = frozenset(
    f"aten::{name}"
    for name in (
        "_unsafe_index", "arange", "empty", "full", "index_select", "mm", "new_empty",
        "new_full", "new_ones", "new_zeros", "ones", "reflection_pad1d",
        "scalar_tensor", "stack", "zeros",
    )
)  # fmt: skip
"""Operators whose results are in order for all operands."""

_SAME_ORDER = frozenset(
    f"aten::{name}"
    for name in (
        "_to_copy", "_unsafe_view", "clone", "copy", "empty_like", "full_like",
        "index_add", "index_put", "ones_like", "reshape", "scatter", "scatter_add", "squeeze",
        "squeeze_copy", "unsqueeze", "unsqueeze_copy", "view", "view_copy", "zeros_like",
    )
)  # fmt: skip
"""Operators whose results are in order if their first operands are in order. For pointwise
operators, all operands must be in order."""

_KEEPING_FORMAT = frozenset(["aten::cat", "aten::constant_pad_nd"])
_WITH_CHANNELS = (4, 5)
"""The numbers of dimensions for which results of these operators have their channels last if an
operand has. All other results of these operators are in order."""


def _view_indices(
    tensor: Tensor, size: Sequence[int], stride: Sequence[int], offset: int | None
) -> Tensor:
    """The index of each element of the view in the tensor."""
    indices = torch.full((), offset or 0, dtype=torch.int64, device=tensor.device)
    for length, step in zip(size, stride, strict=True):
        numbers = torch.arange(length, device=tensor.device) * step
        indices = indices.unsqueeze(-1) + numbers
    return indices.reshape(-1)


capture.OWN.update(
    {
        overload("aten::as_strided"): as_strided,
        overload("aten::as_strided_scatter"): as_strided_scatter,
    }
)


@cache
def define_operators() -> torch.library.Library:
    """Register operators for the device of traced tensors, for the life of the process:
    `aten::as_strided_`, which changes the sizes of a tensor and which only this device lacks (torch
    2.15.0), and `aten::one_hot`, for which PyTorch 2.10 reads the values on this device."""
    name = "aten::as_strided_"
    cpu_kernel = torch.library.get_kernel(name, "CPU").call_boxed

    def kernel(keys: Any, *arguments: Any) -> Any:
        return cpu_kernel(keys, *arguments)

    library = torch.library.Library("aten", "IMPL")
    library.impl("as_strided_", kernel, DISPATCH_KEY, with_keyset=True)
    if torch.__version__ < "2.11":  # compares as versions
        library.impl("one_hot", one_hot, AUTOGRAD_KEY)
    return library


def one_hot(tensor: torch.Tensor, num_classes: int = -1) -> torch.Tensor:
    """`torch.nn.functional.one_hot`, which reads no value if the number of classes is known."""
    count = num_classes if num_classes >= 0 else int(tensor.max().item()) + 1
    return (tensor.unsqueeze(-1) == torch.arange(count, device=tensor.device)).long()
