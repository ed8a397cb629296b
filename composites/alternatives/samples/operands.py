"""What the calls of several kinds share."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

Call = tuple[tuple[Any, ...], dict[str, Any]]
"""Arguments and keywords."""


def numbers(dtype: torch.dtype, *shape: int, shift: float = 0) -> Tensor:
    return (torch.randn(*shape) + shift).to(dtype).requires_grad_()


def image(dtype: torch.dtype, size: tuple[int, int], channels: int = 3) -> Tensor:
    return numbers(dtype, 2, channels, *size)
