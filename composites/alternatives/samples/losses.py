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


def linear_cross_entropy(dtype: torch.dtype) -> Iterator[Call]:
    """Calls of `linear_cross_entropy_loss`, in more than one block of classes."""
    for rows, bias, reduction, ignored, smoothing in (
        ((230,), False, 1, -100, 0.0),
        ((3, 70), True, 2, 3, 0.0),
        ((2, 5, 20), True, 0, -100, 0.1),
        ((210,), False, 1, 3, 0.2),
    ):
        target = torch.randint(0, 12001, rows)
        target[..., ::9] = ignored
        states = torch.randn(*rows, 24).to(dtype).requires_grad_()
        weight = (torch.randn(12001, 24) / 4).to(dtype).requires_grad_()
        added = torch.randn(12001).to(dtype).requires_grad_() if bias else None
        yield (states, weight, target, added, reduction, ignored, smoothing), {}
