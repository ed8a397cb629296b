"""Calls of operators that choose elements."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from composites.alternatives.samples.operands import Call


def top_k(dtype: torch.dtype) -> Iterator[Call]:
    """Calls of `aten::topk`; no two elements are equal, because any of equal ones is right."""
    for shape, options in (
        ((300, 8), {"k": 2}),
        ((3, 90, 100), {"k": 8, "largest": False}),
        ((256, 5), {"k": 5, "dim": 1}),
    ):
        order = torch.rand(*shape).argsort(-1)
        yield ((order - shape[-1] / 2).to(dtype),), dict(options)
