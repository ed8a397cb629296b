"""Calls that the alternatives take, for `composites verify`: more than one block, and what is left
over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

Call = tuple[tuple[Any, ...], dict[str, Any]]


def attention(dtype: torch.dtype) -> Iterator[Call]:
    """Calls of `aten::scaled_dot_product_attention`."""

    def numbers(*shape: int) -> Tensor:
        return torch.randn(*shape).to(dtype).requires_grad_(dtype.is_floating_point)

    def operands(length: int, keys: int, heads: int = 2) -> tuple[Tensor, Tensor, Tensor]:
        return numbers(1, 2, length, 8), numbers(1, heads, keys, 8), numbers(1, heads, keys, 12)

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


def layer_norm(dtype: torch.dtype) -> Iterator[Call]:
    """Calls of `aten::native_layer_norm`."""
    yield (_numbers(dtype, 2, 70, 768), [768], *_affine(dtype, 768), 1e-5), {}
    yield (_numbers(dtype, 600, 384, shift=3), [384], None, None, 1e-5), {}


def rms_norm(dtype: torch.dtype) -> Iterator[Call]:
    """Calls of `aten::rms_norm`."""
    yield (_numbers(dtype, 2, 70, 768), [768], _numbers(dtype, 768), 1e-6), {}
    yield (_numbers(dtype, 600, 384, shift=3), [384]), {}


def llama_rms_norm(dtype: torch.dtype) -> Iterator[Call]:
    """Calls of the `forward` of Llama's norm."""
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    yield (LlamaRMSNorm(768, eps=1e-5).to(dtype), _numbers(dtype, 2, 70, 768)), {}


def t5_rms_norm(dtype: torch.dtype) -> Iterator[Call]:
    """Calls of the `forward` of T5's norm."""
    from transformers.models.t5.modeling_t5 import T5LayerNorm

    make: Any = T5LayerNorm  # it has no type hints
    yield (make(768, eps=1e-5).to(dtype), _numbers(dtype, 2, 70, 768)), {}


def olmo2_rms_norm(dtype: torch.dtype) -> Iterator[Call]:
    """Calls of the `forward` of OLMo 2's norm."""
    from transformers.models.olmo2.modeling_olmo2 import Olmo2RMSNorm

    yield (Olmo2RMSNorm(768, eps=1e-5).to(dtype), _numbers(dtype, 2, 70, 768)), {}


def batch_norm(dtype: torch.dtype) -> Iterator[Call]:
    """Calls of `aten::batch_norm` in training."""
    for shape, affine, shift in (
        ((4, 16, 33, 32), _affine(dtype, 16), 0),
        ((2, 16, 4096), (None, None), 2),
    ):
        averages = torch.randn(16).to(dtype), torch.rand(16).to(dtype)
        operands = (_numbers(dtype, *shape, shift=shift), *affine, *averages)
        yield (*operands, True, 0.1, 1e-5, False), {}


def _numbers(dtype: torch.dtype, *shape: int, shift: float = 0) -> Tensor:
    return (torch.randn(*shape) + shift).to(dtype).requires_grad_()


def _affine(dtype: torch.dtype, count: int) -> tuple[Tensor, Tensor]:
    return _numbers(dtype, count), _numbers(dtype, count)
