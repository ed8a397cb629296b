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


def embedding(dtype: torch.dtype) -> Iterator[Call]:
    """Calls of `aten::embedding`, with indices that occur several times."""
    for shape, padding in (((200,), -1), ((5, 30), 3)):
        indices = torch.randint(0, 40, shape) * 100
        indices[..., ::7] = max(padding, 0)
        yield (torch.randn(4096, 256).to(dtype).requires_grad_(), indices, padding), {}


def top_k(dtype: torch.dtype) -> Iterator[Call]:
    """Calls of `aten::topk`; no two elements are equal, because any of equal ones is right."""
    for shape, options in (
        ((300, 8), {"k": 2}),
        ((3, 90, 100), {"k": 8, "largest": False}),
        ((256, 5), {"k": 5, "dim": 1}),
    ):
        order = torch.rand(*shape).argsort(-1)
        yield ((order - shape[-1] / 2).to(dtype),), dict(options)


# Each size of an image, and to what it is resampled: by whole factors, and by others.
_WHOLE = (((4, 5), (8, 10)), ((6, 4), (18, 4)), ((3, 3), (12, 6)), ((2, 300), (4, 600)))
_SIZES = (*_WHOLE, ((7, 5), (10, 9)), ((9, 300), (5, 303)))


def upsample_nearest2d(dtype: torch.dtype) -> Iterator[Call]:
    """Calls of `aten::upsample_nearest2d`."""
    for size, output in _WHOLE:
        yield (_image(dtype, size), output), {}
    yield (_image(dtype, (4, 4)), (8, 12), 2.0, 3.0), {}


def upsample_bilinear2d(dtype: torch.dtype) -> Iterator[Call]:
    """Calls of `aten::upsample_bilinear2d`."""
    for size, output in _SIZES:
        for align_corners in (False, True):
            yield (_image(dtype, size), output, align_corners), {}
    yield (_image(dtype, (4, 4)), (8, 12), False, 2.0, 3.0), {}


def upsample_bilinear2d_by_whole_factors(dtype: torch.dtype) -> Iterator[Call]:
    """Calls of `aten::upsample_bilinear2d`."""
    for size, output in _WHOLE:
        yield (_image(dtype, size), output, False), {}
    yield (_image(dtype, (4, 4)), (8, 12), False, 2.0, 3.0), {}


def upsample_bicubic2d(dtype: torch.dtype) -> Iterator[Call]:
    """Calls of `aten::upsample_bicubic2d`."""
    for size, output in (((4, 5), (8, 10)), ((9, 5), (5, 9)), ((14, 14), (16, 16))):
        for align_corners in (False, True):
            yield (_image(dtype, size), output, align_corners), {}


def grid_sampler_2d(dtype: torch.dtype) -> Iterator[Call]:
    """Calls of `aten::grid_sampler_2d`, with points outside the image."""
    for padding_mode in (0, 1, 2):
        for align_corners in (False, True):
            grid = (torch.rand(2, 5, 7, 2) * 5 - 2.5).to(dtype).requires_grad_()
            yield (_image(dtype, (6, 9)), grid, 0, padding_mode, align_corners), {}


def max_pool2d(dtype: torch.dtype) -> Iterator[Call]:
    """Calls of `aten::max_pool2d`."""
    for size, *arguments in (
        ((120, 120), 2),
        ((121, 123), 2, 2, 1),
        ((120, 121), 3, 2, 1),
        ((112, 112), 3, 1, 1),
        ((112, 112), (2, 3), (3, 2)),
    ):
        yield (_image(dtype, size, channels=4), *arguments), {}


def _image(dtype: torch.dtype, size: tuple[int, int], channels: int = 3) -> Tensor:
    return torch.randn(2, channels, *size).to(dtype).requires_grad_()
