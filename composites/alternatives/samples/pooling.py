"""Calls of pooling."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from composites.alternatives.samples.operands import Call, image


def max_pool2d(dtype: torch.dtype) -> Iterator[Call]:
    """Calls of `aten::max_pool2d`."""
    for size, *arguments in (
        ((120, 120), 2),
        ((121, 123), 2, 2, 1),
        ((120, 121), 3, 2, 1),
        ((112, 112), 3, 1, 1),
        ((112, 112), (2, 3), (3, 2)),
    ):
        yield (image(dtype, size, channels=4), *arguments), {}
