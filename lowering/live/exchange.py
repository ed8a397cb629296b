"""PyTorch's tensors as JAX's arrays, and back, without a copy (DLPack)."""

from __future__ import annotations

from typing import Any

import torch

from lowering.frontends.jax.internals import array_from_dlpack, array_to_dlpack

_ALIGNMENT = 64
"""Bytes. XLA:CPU takes memory that begins at a multiple of this (jaxlib 0.12)."""


def shares_memory(tensor: torch.Tensor) -> bool:
    """Return whether `to_jax` makes no copy."""
    is_plain = not (tensor.is_conj() or tensor.is_neg()) and tensor.is_contiguous()
    return is_plain and tensor.data_ptr() % _ALIGNMENT == 0


def to_jax(tensor: torch.Tensor, device: Any) -> Any:
    """A tensor as an array of a JAX device. They share memory where XLA can take the tensor's."""
    plain = tensor.detach()
    if shares_memory(plain):
        # Strides of dimensions of size 1 mean nothing to PyTorch, and a layout to JAX.
        plain = plain.view(-1).view(plain.shape)
    else:
        plain = plain.resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
    return array_from_dlpack(torch.utils.dlpack.to_dlpack(plain), device)  # type: ignore[attr-defined]


def to_torch(array: Any) -> torch.Tensor:
    """An array as a tensor that shares its memory. The array is ready, and nobody else has it."""
    capsule = array_to_dlpack(array)
    return torch.utils.dlpack.from_dlpack(capsule)


class Parameters:
    """The arrays of parameters. Optimizers write to the memory that an array shares, so it is made
    again only where a parameter has other memory."""

    def __init__(self) -> None:
        self._arrays: dict[int, tuple[tuple[int, tuple[int, ...]], Any]] = {}

    def to_jax(self, position: int, tensor: torch.Tensor, device: Any) -> Any:
        """See `to_jax`, for the input of a program at a position."""
        if not isinstance(tensor, torch.nn.Parameter):
            return to_jax(tensor, device)
        place = (tensor.data_ptr(), tensor.stride())
        known = self._arrays.get(position)
        if known is not None and known[0] == place:
            return known[1]
        array = to_jax(tensor, device)
        if shares_memory(tensor):
            self._arrays[position] = place, array
        return array
