"""Calls for `composites verify`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch


def conv(dtype: torch.dtype) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Of aten::convolution, in PyTorch's order: all ranks, with and without a bias, and images and
    weights that need no gradient."""
    cases = (
        # images, weights, bias?, stride, padding, dilation, transposed, output padding, groups
        ((2, 3, 8, 9), (4, 3, 3, 2), True, [1, 1], [1, 0], [1, 1], False, [0, 0], 1),
        ((2, 4, 9, 9), (6, 2, 3, 3), False, [2, 1], [1, 1], [1, 2], False, [0, 0], 2),
        ((1, 4, 12), (4, 1, 3), True, [1], [2], [1], False, [0], 4),
        ((2, 2, 4, 5, 4), (3, 2, 2, 3, 2), True, [1, 2, 1], [0, 1, 0], [1] * 3, False, [0] * 3, 1),
        ((2, 4, 5, 6), (4, 3, 3, 3), True, [2, 2], [1, 1], [1, 1], True, [1, 0], 1),
        ((2, 4, 5, 6), (4, 3, 3, 3), False, [1, 2], [0, 0], [2, 1], True, [0, 0], 2),
        ((2, 6, 7), (6, 2, 4), True, [3], [1], [1], True, [2], 3),
    )
    random = torch.Generator().manual_seed(0)

    def made(*shape: int, gradient: bool = True) -> torch.Tensor:
        return torch.randn(shape, generator=random).to(dtype).requires_grad_(gradient)

    for images, weights, biased, *geometry in cases:
        transposed, groups = geometry[3], geometry[5]
        bias = made(weights[1] * groups if transposed else weights[0]) if biased else None
        yield (made(*images), made(*weights), bias, *geometry), {}
        yield (made(*images, gradient=False), made(*weights), bias, *geometry), {}
        yield (made(*images), made(*weights, gradient=False), bias, *geometry), {}
