"""Calls of the entries of litert_lm.yaml, under their names, for `composites verify`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

Sample = tuple[tuple[Any, ...], dict[str, Any]]

LOWEST = -10000.0
"""What a mask has for scores that do not count."""


def swiglu(dtype: torch.dtype) -> Iterator[Sample]:
    """A gate of four; one of three is left alone."""
    if dtype == torch.float32:
        yield (torch.randn(1, 3, 8), 4), {}
        yield (torch.randn(1, 3, 6), 3), {}


def qkv_norm_rope(dtype: torch.dtype) -> Iterator[Sample]:
    """Two queries to each key, and one token."""
    if dtype != torch.float32:
        return
    for positions in ([3, 4, 5], [7]):
        qkv = torch.randn(1, len(positions), (4 + 2 * 2) * 8)
        yield (qkv, _numbers(positions), torch.rand(8), torch.rand(8), 4, 2, 8), {}


def short_conv_step(dtype: torch.dtype) -> Iterator[Sample]:
    """With a bias and without."""
    if dtype == torch.float32:
        operands = torch.randn(1, 1, 24), torch.randn(1, 8, 2), torch.randn(8, 1, 3)
        yield (*operands, torch.randn(8), 3), {}
        yield operands, {}


def cache_update(dtype: torch.dtype) -> Iterator[Sample]:
    """Rows inside, at the end, where a row is left out, and around a ring."""
    if dtype == torch.float32:
        yield _update(3, 5), {}
        yield _update(7, 8), {}
        yield _update(7, 9, count=2), {"is_ring_buffer": True}
        yield _update(15, 16, count=1), {"is_ring_buffer": True}


def _update(first: int, end: int, count: int = 0) -> tuple[Any, ...]:
    new = torch.randn(2, 1, 2, 2, 4)
    starts = (
        torch.tensor(slot, dtype=torch.int32) for slot in ([0, 0, first, 0], [0, 0, 0, first])
    )
    param = _numbers([first, end, end, count, 0, 0, 0])
    caches = torch.randn(1, 2, 8, 4), torch.randn(1, 2, 4, 8)
    return (*new.unbind(), param, *caches, *starts, 2, 8, 4)


def runtime_bmm(dtype: torch.dtype) -> Iterator[Sample]:
    """Scores and values."""
    if dtype == torch.float32:
        operands = torch.randn(1, 2, 3, 4), torch.randn(1, 2, 8, 4), _numbers([5, 8, 8, 0, 0, 0, 0])
        yield operands, {}
        yield operands, {"is_src": True, "rhs_cache_update": True}


def sdpa_transposed(dtype: torch.dtype) -> Iterator[Sample]:
    """Three queries to five filled slots of eight."""
    if dtype == torch.float32:
        query, mask = torch.randn(1, 2, 3, 4), torch.zeros(1, 1, 3, 8)
        mask[..., 5:] = LOWEST
        caches = torch.randn(1, 2, 8, 4), torch.randn(1, 2, 4, 8)
        yield (query, *caches, mask, _numbers([2, 5, 5, 0, 0, 0, 0])), {}


def fused_sdpa_cache_update(dtype: torch.dtype) -> Iterator[Sample]:
    """The first tokens, and some that overwrite slots."""
    if dtype != torch.float32:
        return
    for first in (0, 7):
        query = torch.randn(1, 2, 6, 4)
        caches = torch.randn(1, 2, 8, 4), torch.randn(1, 2, 4, 8)
        new = torch.randn(1, 2, 3, 4), torch.randn(1, 2, 4, 3)
        mask = torch.full((1, 1, 3, 11), LOWEST).triu(9)
        yield (query, *caches, *new, mask, _numbers([first, first + 3, 0, 0, 0, 0, 0])), {}
        yield (query, *caches, *new, mask, _numbers([first, first + 2, 0, 0, 0, 0, 0]), 2.0), {}


def moe_experts(dtype: torch.dtype) -> Iterator[Sample]:
    """Two of three experts, and a factor of each."""
    if dtype != torch.float32:
        return
    routing = torch.rand(1, 5, 2), torch.randint(0, 3, (1, 5, 2), dtype=torch.int32)
    weights = torch.randn(6, 3, 1, 4), torch.randn(6, 3, 1, 4), torch.randn(4, 3, 1, 6)
    for scale in (torch.rand(1, 1, 1, 3), torch.rand(1, 1, 1, 1)):
        yield (torch.randn(1, 5, 4), *routing, *weights, scale), {}


def _numbers(numbers: list[int]) -> Tensor:
    return torch.tensor(numbers, dtype=torch.int32).reshape(1, 1, 1, -1)
