"""Calls of the entries of litert_quant.yaml, under their names, for `composites verify`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

Sample = tuple[tuple[Any, ...], dict[str, Any]]

X = torch.linspace(-3, 3, 12).reshape(3, 4)
INTEGERS = torch.arange(-6, 6).reshape(3, 4)
SCALES = [0.25, 0.5, 0.125]


def fake_quant(dtype: torch.dtype) -> Iterator[Sample]:
    """Integers of eight bits and of four."""
    if dtype == torch.float32:
        yield (X, 0.25, 3, -128, 127), {}
        yield (X, 0.5, 0, -7, 7), {}


def quantize(dtype: torch.dtype) -> Iterator[Sample]:
    """Eight and sixteen bits."""
    if dtype == torch.float32:
        yield (X, 0.25, 3, -128, 127, torch.int8), {}
        yield (X, 0.01, 0, -32768, 32767, torch.int16), {}


def dequantize(dtype: torch.dtype) -> Iterator[Sample]:
    """Integers of eight bits and of sixteen."""
    if dtype == torch.int8:
        yield (INTEGERS.to(dtype), 0.25, 3, -128, 127, dtype), {}
    if dtype == torch.int16:
        yield (INTEGERS.to(dtype), 0.01, 0, -32767, 32767, dtype), {}


def fake_quant_channels(dtype: torch.dtype) -> Iterator[Sample]:
    """Eight bits and four."""
    if dtype == torch.float32:
        yield (X, SCALES, 0), {}
        yield (X, SCALES, 0, "i4"), {}


def dequantize_channels(dtype: torch.dtype) -> Iterator[Sample]:
    """Integers of eight bits."""
    if dtype == torch.int8:
        yield (INTEGERS.to(dtype), SCALES, 0), {}
