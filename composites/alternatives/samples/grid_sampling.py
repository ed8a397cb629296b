"""Calls of operators that take an image's values at points."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from composites.alternatives.samples.operands import Call, image


def grid_sampler_2d(dtype: torch.dtype) -> Iterator[Call]:
    """Calls of `aten::grid_sampler_2d`, with points outside the image."""
    for padding_mode in (0, 1, 2):
        for align_corners in (False, True):
            grid = (torch.rand(2, 5, 7, 2) * 5 - 2.5).to(dtype).requires_grad_()
            yield (image(dtype, (6, 9)), grid, 0, padding_mode, align_corners), {}
