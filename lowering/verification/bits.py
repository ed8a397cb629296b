"""Comparison of two tensors in every bit."""

from typing import Any

import torch

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def same_bits(left: Any, right: Any) -> bool:
    """Return whether values are equal. Tensors must have equal type, shape and bits; all NaN are
    equal."""
    if not isinstance(left, torch.Tensor) or not isinstance(right, torch.Tensor):
        return bool(type(left) is type(right) and left == right)
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    return torch.equal(_bits(left), _bits(right))


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.resolve_conj().resolve_neg().contiguous().reshape(-1)
    flat = torch.view_as_real(flat).reshape(-1) if flat.is_complex() else flat
    bits = flat.view(_INTEGERS[flat.element_size()])
    return bits.masked_fill(flat.isnan(), -1) if flat.is_floating_point() else bits
