"""Calls of softmax and log-softmax, for their gradients."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from composites.alternatives.samples.operands import Call, numbers


def softmax(dtype: torch.dtype) -> Iterator[Call]:
    """Calls of `aten::_softmax` and `aten::_log_softmax`."""
    for *shape, dim in (3, 5, 64, -1), (2, 70, 197, 2), (40, 1000, 1), (24, 4096, -1):
        yield (numbers(dtype, *shape), dim, False), {}
