"""Calls of the entries of tenstorrent_next.yaml, under their names, for `composites verify`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

Sample = tuple[tuple[Any, ...], dict[str, Any]]


def swiglu(dtype: torch.dtype) -> Iterator[Sample]:
    """A gate of four."""
    yield (torch.randn(2, 3, 8).to(dtype).requires_grad_(),), {}


glu = geglu = reglu = swiglu


def residual_rms_norm(dtype: torch.dtype) -> Iterator[Sample]:
    """One dimension; the norm of two is left alone."""
    x, residual = (torch.randn(2, 3, 4).to(dtype).requires_grad_() for _ in range(2))
    yield (x, residual, torch.rand(4).to(dtype).requires_grad_(), [4], 1e-6), {}
    yield (x, residual, torch.rand(3, 4).to(dtype).requires_grad_(), [3, 4]), {}
