"""PyTorch's tensors as JAX's arrays, and back, without a copy (DLPack)."""

from __future__ import annotations

from typing import Any

import torch

from lowering.frontends.jax.internals import array_from_dlpack

_ALIGNMENT = 64
"""Bytes. XLA:CPU takes memory that begins at a multiple of this (jaxlib 0.12)."""


def to_jax(tensor: torch.Tensor, device: Any) -> Any:
    """A tensor as an array of a JAX device. They share memory where XLA can take the tensor's."""
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
    if plain.data_ptr() % _ALIGNMENT:
        plain = plain.clone()
    return array_from_dlpack(torch.utils.dlpack.to_dlpack(plain), device)  # type: ignore[attr-defined]


def to_torch(array: Any) -> torch.Tensor:
    """An array as a tensor that shares its memory. The array is ready, and nobody else has it."""
    return torch.from_dlpack(array)  # type: ignore[no-any-return]
