"""Calls of losses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from composites.alternatives.samples.operands import Call


def cross_entropy(dtype: torch.dtype) -> Iterator[Call]:
    """Calls of `aten::cross_entropy_loss`."""
    options: tuple[dict[str, Any], ...] = (
        {},
        {"reduction": 2, "ignore_index": 3},
        {"reduction": 0, "label_smoothing": 0.1},
        {"weight": torch.rand(5000).to(dtype)},
        {"weight": torch.rand(5000).to(dtype), "label_smoothing": 0.2},
    )
    for keywords in options:
        target = torch.randint(0, 5000, (230,))
        target[::9] = keywords.get("ignore_index", -100)
        yield (torch.randn(230, 5000).to(dtype).requires_grad_(), target), dict(keywords)
