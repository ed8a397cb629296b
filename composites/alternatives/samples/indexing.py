"""Calls of operators that gather and scatter rows."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from composites.alternatives.samples.operands import Call


def embedding(dtype: torch.dtype) -> Iterator[Call]:
    """Calls of `aten::embedding`, with indices that occur several times."""
    for shape, padding in (((200,), -1), ((5, 30), 3)):
        indices = torch.randint(0, 40, shape) * 100
        indices[..., ::7] = max(padding, 0)
        yield (torch.randn(4096, 256).to(dtype).requires_grad_(), indices, padding), {}
