"""PyTorch's tensors as JAX's arrays, and back, without a copy (DLPack)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import WeakSet

import torch

from composites.torch_internals import below_autograd, tensor_from_dlpack, version_of
from lowering.frontends.jax.internals import array_from_dlpack, array_to_dlpack
from lowering.live.strides import Order, in_memory_order, in_own_order
from lowering.stablehlo.errors import RunError

_ALIGNMENT = 64
"""Bytes. XLA:CPU takes memory that begins at a multiple of this (jaxlib 0.12)."""


def shares_memory(tensor: torch.Tensor) -> bool:
    """Return whether `to_jax` makes no copy."""
    is_plain = not (tensor.is_conj() or tensor.is_neg()) and tensor.is_contiguous()
    return is_plain and tensor.data_ptr() % _ALIGNMENT == 0


def to_jax(tensor: torch.Tensor, device: Any) -> Any:
    """A tensor as an array of a JAX device. They share memory if XLA can use the tensor's."""
    capsule = torch.utils.dlpack.to_dlpack(in_plain_order(tensor))  # type: ignore[attr-defined]
    return array_from_dlpack(capsule, device)


def in_plain_order(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor in the layout of XLA: the detached tensor if `shares_memory`, otherwise a copy."""
    plain = tensor.detach()
    if shares_memory(plain):
        # Strides of dimensions of size 1 mean nothing to PyTorch, and a layout to JAX.
        return plain.view(-1).view(plain.shape)
    return plain.resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)


def to_torch(array: Any, order: Order) -> torch.Tensor:
    """An array as a tensor that shares its memory. The array is ready, and has no other owner."""
    tensor = tensor_from_dlpack(array_to_dlpack(array))
    if order is None:
        return tensor
    with below_autograd():
        ordered = in_own_order(tensor, order)
        # AOTAutograd would save a copy of a view, without the array.
        return tensor.as_strided_(ordered.shape, ordered.stride())


_ARRAY = "_composites_array"
"""An attribute of a tensor that autograd saves, whose array shares its memory."""
_COPY = "_composites_copy"
"""An attribute of a tensor without values: a copy of them on other devices."""


class _Remembered(NamedTuple):  # made in a fifth of the time of a frozen dataclass
    start: int
    """The address where the memory of the tensor begins."""
    order: Order
    array: Any

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave the array out of files, to which hooks may save tensors. An empty set, which
        `torch.load` reads, replaces it."""
        return set, ()


@dataclass(frozen=True, slots=True)
class _Copy:
    order: Order
    array: Any
    source: torch.Tensor | None
    version: int
    """The number of writes to the source before it was copied."""

    def __reduce__(self) -> tuple[Any, ...]:
        """See `_Remembered`."""
        return set, ()


def remember(saved: torch.Tensor, array: Any, order: Order) -> None:
    """Keep the array from which `to_torch` made a saved tensor, for the backward."""
    setattr(saved, _ARRAY, _Remembered(saved.data_ptr(), order, array))


def remember_copy(
    like: torch.Tensor, array: Any, order: Order, *, source: torch.Tensor | None = None
) -> torch.Tensor:
    """A tensor without values that keeps an array on other devices for the backward.

    Args:
        like: a tensor with the size and strides of the new tensor.
        source: the tensor of which the array is a copy.
    """
    tensor = torch.empty_strided(like.size(), like.stride(), dtype=like.dtype, device="meta")
    version = 0 if source is None else version_of(source)
    setattr(tensor, _COPY, _Copy(order, array, source, version))
    return tensor


def remembered_copy(tensor: torch.Tensor, order: Order) -> Any:
    """The array that `remember_copy` keeps, with its dimensions in an order.

    Raises:
        RunError: `remember_copy` did not make the tensor, or the source was written to.
    """
    copy = getattr(tensor, _COPY, None)
    if not isinstance(copy, _Copy):
        raise RunError(
            "a hook has replaced a tensor that a live program saved for its backward, or has"
            " detached it; its values are on the program's devices: remove the hook, such as"
            " torch.autograd.graph.save_on_cpu, from around the compiled model"
        )
    if copy.source is not None and version_of(copy.source) != copy.version:
        raise RunError(
            f"an input of shape {tuple(tensor.shape)} that the backward needs has been written to"
            " since the forward; call backward before"
        )
    if copy.order == order:
        return copy.array
    own = range(tensor.dim()) if copy.order is None else copy.order
    dims = range(tensor.dim()) if order is None else order
    return copy.array.transpose([list(own).index(dim) for dim in dims])


class ProgramInputs:
    """The inputs of a program as arrays.

    Optimizers write to the memory that the array of a parameter shares, so the array is made again
    only if the parameter has moved to other memory.
    """

    def __init__(self, orders: Sequence[Order], device: Any) -> None:
        """The inputs with these orders of dimensions."""
        self._orders = orders
        self._device = device
        self._parameters: dict[int, tuple[int, tuple[int, ...], Any]] = {}
        _PROGRAMS.add(self)

    def to_jax(self, position: int, tensor: torch.Tensor) -> Any:
        """The input at a position."""
        cached = self._parameters.get(position)
        if cached is not None and cached[:2] == (tensor.data_ptr(), tensor.stride()):
            return cached[2]
        order = self._orders[position]
        ordered = in_memory_order(tensor, order)
        saved = getattr(tensor, _ARRAY, None)
        if isinstance(saved, _Remembered):
            is_same = saved.start == tensor.data_ptr() and saved.order == order
            if is_same and ordered.is_contiguous():  # its memory has not been replaced since
                return saved.array
        array = to_jax(ordered, self._device)
        if isinstance(tensor, torch.nn.Parameter) and shares_memory(ordered):
            self._parameters[position] = tensor.data_ptr(), tensor.stride(), array
        return array

    def forget(self, address: int) -> None:
        """Drop the arrays of parameters whose memory begins at an address."""
        for position, (start, *_) in [*self._parameters.items()]:
            if start == address:
                del self._parameters[position]


_PROGRAMS: WeakSet[ProgramInputs] = WeakSet()


def forget_parameter(tensor: torch.Tensor) -> None:
    """Make all programs drop arrays that share the memory of a parameter."""
    for inputs in [*_PROGRAMS]:
        inputs.forget(tensor.data_ptr())
