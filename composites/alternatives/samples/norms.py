"""Calls of norms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from composites.alternatives.samples.operands import Call, numbers
from composites.operators.samples import of_transformers


def layer_norm(dtype: torch.dtype) -> Iterator[Call]:
    """Calls of `aten::native_layer_norm`."""
    yield (numbers(dtype, 2, 70, 768), [768], *_affine(dtype, 768), 1e-5), {}
    yield (numbers(dtype, 600, 384, shift=30), [384], None, None, 1e-5), {}
    yield (numbers(dtype, 24, 4096), [4096], *_affine(dtype, 4096), 1e-5), {}


def rms_norm(dtype: torch.dtype) -> Iterator[Call]:
    """Calls of `aten::rms_norm`."""
    yield (numbers(dtype, 2, 70, 768), [768], numbers(dtype, 768), 1e-6), {}
    yield (numbers(dtype, 600, 384, shift=3), [384]), {}
    yield (numbers(dtype, 24, 4096), [4096], None, 1e-6), {}


def llama_rms_norm(dtype: torch.dtype) -> Iterator[Call]:
    """Calls of the `forward` of Llama's norm."""
    yield _applied(of_transformers("llama", "LlamaRMSNorm"), dtype)


def t5_rms_norm(dtype: torch.dtype) -> Iterator[Call]:
    """Calls of the `forward` of T5's norm."""
    yield _applied(of_transformers("t5", "T5LayerNorm"), dtype)


def olmo2_rms_norm(dtype: torch.dtype) -> Iterator[Call]:
    """Calls of the `forward` of OLMo 2's norm."""
    yield _applied(of_transformers("olmo2", "Olmo2RMSNorm"), dtype)


def batch_norm(dtype: torch.dtype) -> Iterator[Call]:
    """Calls of `aten::batch_norm` in training."""
    # So many pixels that it does not show whether the moving average is of the biased variance, as
    # torch_xla's is.
    for shape, affine, shift in (
        ((16, 16, 50, 54), _affine(dtype, 16), 0.0),
        ((64, 16, 28, 28), (None, None), 2.0),
    ):
        averages = torch.randn(16).to(dtype), torch.rand(16).to(dtype)
        operands = (numbers(dtype, *shape, shift=shift), *affine, *averages)
        yield (*operands, True, 0.1, 1e-5, False), {}


def _applied(norm: Any, dtype: torch.dtype) -> Call:
    return (norm(768, eps=1e-5).to(dtype), numbers(dtype, 2, 70, 768)), {}


def _affine(dtype: torch.dtype, count: int) -> tuple[Tensor, Tensor]:
    return numbers(dtype, count), numbers(dtype, count)
