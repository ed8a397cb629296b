"""Memory allocated by XLA for parameters and optimizer states, so that programs can write to it.

A result of a program can take the memory of an operand that is not read afterwards, if XLA has
allocated that memory: JAX calls this a donation. Memory allocated by PyTorch cannot be donated. A
tensor that an optimizer's step writes therefore moves to memory of XLA before the first step. The
tensor stays the same object, and tensors that share its memory later share the memory of XLA.
"""

import ctypes
from dataclasses import dataclass
from threading import RLock
from typing import Any

import numpy as np
import torch

from composites.element_types import NAME_OF_PYTORCH
from composites.torch_internals import owns_memory
from lowering.frontends.tensor_types import DTYPE_OF
from lowering.live.compilations import in_own_thread
from lowering.live.exchange import forget_parameter, to_jax, to_torch
from lowering.live.strides import Order, in_memory_order, in_own_order
from lowering.stablehlo.run import import_jax

_ATTRIBUTE = "_composites_memory"
"""The attribute of a storage that holds its `OwnedMemory`."""
_SMALLEST = 1 << 16
"""Bytes. PyTorch copies smaller tensors in less time than a donation takes."""
writing = RLock()
"""Held while programs write to memory of XLA, whose arrays are deleted during the write."""


@dataclass(eq=False)
class OwnedMemory:
    """Memory that an array of JAX owns, and tensors of PyTorch read and write."""

    array: Any
    """The only reference to the array."""
    dtype: torch.dtype

    @property
    def address(self) -> int:
        """The address where the memory begins."""
        return int(self.array.unsafe_buffer_pointer())

    def take(self, tensor: torch.Tensor, result: Any) -> None:
        """Make a result of a program, to which the array was donated, the values of the tensor that
        has this memory."""
        self.array = result
        if self.address != tensor.data_ptr():  # XLA need not reuse donated memory
            tensor.data = self.flat_tensor().as_strided(tensor.size(), tensor.stride())

    def flat_tensor(self) -> torch.Tensor:
        """A tensor of one dimension that reads and writes the memory of the array."""
        # PyTorch keeps the buffer as long as the storage, and the buffer keeps the array.
        buffer: Any = (ctypes.c_char * self.array.nbytes).from_address(self.address)
        buffer.memory = self
        tensor = torch.frombuffer(buffer, dtype=self.dtype)
        setattr(tensor.untyped_storage(), _ATTRIBUTE, self)
        return tensor


def with_owned_memory(array: Any, order: Order) -> torch.Tensor:
    """`exchange.to_torch`, for a result that a later program can write to, such as the state that
    an optimizer makes in its first step."""
    if array.nbytes < _SMALLEST:
        return to_torch(array, order)
    memory = OwnedMemory(array, DTYPE_OF[NAME_OF_PYTORCH[array.dtype.name]])
    return in_own_order(memory.flat_tensor().view(array.shape), order)


def owned_memory(tensor: torch.Tensor, order: Order, device: Any) -> OwnedMemory | None:
    """The memory of XLA that a tensor has. A tensor in memory of PyTorch is moved there.

    Args:
        tensor: a tensor that a program is going to write.
        order: the order of its dimensions in memory.
        device: the device of JAX that shares PyTorch's memory.

    Returns:
        None if the tensor is small, or a view, or if other tensors share its memory, or if PyTorch
        has not allocated it: arrays of NumPy, files and other processes would not see new values.
    """
    storage = tensor.untyped_storage()
    memory: OwnedMemory | None = getattr(storage, _ATTRIBUTE, None)
    if memory is not None and memory.address != storage.data_ptr():
        delattr(storage, _ATTRIBUTE)  # PyTorch has moved the tensor, as `share_memory_` does
        memory = None
    ordered = in_memory_order(tensor, order)
    if memory is not None:
        is_same = memory.array.shape == ordered.shape and memory.dtype == tensor.dtype
        return memory if is_same and ordered.is_contiguous() else None
    is_whole = storage.nbytes() == tensor.nbytes >= _SMALLEST and ordered.is_contiguous()
    is_plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and not tensor.is_inference()
    is_allocated = storage.resizable() and not tensor.is_shared() and not tensor.is_pinned()
    if not is_whole or not is_plain or not is_allocated:
        return None
    del storage, ordered
    forget_parameter(tensor)
    if not owns_memory(tensor):
        return None
    values = np.asarray(to_jax(in_memory_order(tensor, order), device))
    copy = in_own_thread(import_jax().device_put, values, device, may_alias=False)
    memory = OwnedMemory(copy, tensor.dtype)
    tensor.data = memory.flat_tensor().as_strided(tensor.size(), tensor.stride())
    return memory


def owns_memory_of_xla(tensor: torch.Tensor) -> bool:
    """Return whether a tensor, or its base if it is a view, has memory of XLA."""
    return hasattr(tensor.untyped_storage(), _ATTRIBUTE)
