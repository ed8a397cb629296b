"""Calls of attention: lengths that are no whole blocks, and masks of all forms."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from composites.alternatives.samples.operands import Call


def attention(dtype: torch.dtype) -> Iterator[Call]:
    """Calls of `aten::scaled_dot_product_attention`."""
    operands = partial(_operands, dtype)
    yield operands(512, 512), {"is_causal": True}
    yield operands(300, 257), {"scale": 0.3}
    yield operands(700, 100), {"is_causal": True}
    yield operands(90, 800), {"is_causal": True}
    masked = torch.rand(1, 1, 300, 300) > 0.5
    masked[..., :7, :] = False  # nothing takes part in these rows
    yield operands(300, 300), {"attn_mask": masked}
    yield operands(260, 300), {"attn_mask": torch.randn(2, 260, 300).to(dtype)}
    yield operands(300, 300), {"attn_mask": torch.rand(1, 300) > 0.2}
    yield operands(300, 300, 1), {"is_causal": True, "enable_gqa": True}


def causal_attention(dtype: torch.dtype) -> Iterator[Call]:
    """Long causal calls, whose lengths no number of blocks divides."""
    operands = partial(_operands, dtype)
    yield operands(1024, 1024), {"is_causal": True}
    yield operands(1030, 1030), {"is_causal": True, "scale": 0.3}
    yield operands(1025, 1100), {"is_causal": True}
    yield operands(1030, 1100, 1), {"is_causal": True, "enable_gqa": True}


def _operands(
    dtype: torch.dtype, length: int, keys: int, heads: int = 2
) -> tuple[Tensor, Tensor, Tensor]:
    def numbers(*shape: int) -> Tensor:
        return torch.randn(*shape).to(dtype).requires_grad_(dtype.is_floating_point)

    return numbers(1, 2, length, 8), numbers(1, heads, keys, 8), numbers(1, heads, keys, 12)
