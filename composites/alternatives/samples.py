"""Samples of the decompositions to choose of kernels.yaml: more than one block, and the rest.

The function of an entry's name has calls that the entry's decompositions take.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from composites.operators.samples import Call, module_samples

_MODELS = "transformers.models"


def _numbers(dtype: torch.dtype, *shape: int, shift: float = 0) -> Tensor:
    return (torch.randn(*shape) + shift).to(dtype).requires_grad_()


def _image(dtype: torch.dtype, size: tuple[int, int], channels: int = 3) -> Tensor:
    return _numbers(dtype, 2, channels, *size)


def softmax_backward(dtype: torch.dtype) -> Iterator[Call]:
    """Calls of `aten::_softmax` and `aten::_log_softmax`, for their gradients."""
    for *shape, dim in (3, 5, 64, -1), (2, 70, 197, 2), (40, 1000, 1), (24, 4096, -1):
        yield (_numbers(dtype, *shape), dim, False), {}


log_softmax_backward = softmax_backward


def layer_norm(dtype: torch.dtype) -> Iterator[Call]:
    """Calls of `aten::native_layer_norm`."""
    yield (_numbers(dtype, 2, 70, 768), [768], *_affine(dtype, 768), 1e-5), {}
    yield (_numbers(dtype, 600, 384, shift=30), [384], None, None, 1e-5), {}
    yield (_numbers(dtype, 24, 4096), [4096], *_affine(dtype, 4096), 1e-5), {}


def rms_norm(dtype: torch.dtype) -> Iterator[Call]:
    """Calls of `aten::rms_norm`."""
    yield (_numbers(dtype, 2, 70, 768), [768], _numbers(dtype, 768), 1e-6), {}
    yield (_numbers(dtype, 600, 384, shift=3), [384]), {}
    yield (_numbers(dtype, 24, 4096), [4096], None, 1e-6), {}


_of_norm = partial(module_samples, shapes=((2, 70, 768),), eps=1e-5)
llama_rms_norm = _of_norm(f"{_MODELS}.llama.modeling_llama:LlamaRMSNorm", 768)
t5_rms_norm = _of_norm(f"{_MODELS}.t5.modeling_t5:T5LayerNorm", 768)
olmo2_rms_norm = _of_norm(f"{_MODELS}.olmo2.modeling_olmo2:Olmo2RMSNorm", 768)


def batch_norm_training(dtype: torch.dtype) -> Iterator[Call]:
    """Calls of `aten::batch_norm` in training."""
    # So many pixels that it does not show whether the moving average is of the biased variance, as
    # torch_xla's is.
    for shape, affine, shift in (
        ((16, 16, 50, 54), _affine(dtype, 16), 0.0),
        ((64, 16, 28, 28), (None, None), 2.0),
    ):
        averages = torch.randn(16).to(dtype), torch.rand(16).to(dtype)
        operands = (_numbers(dtype, *shape, shift=shift), *affine, *averages)
        yield (*operands, True, 0.1, 1e-5, False), {}


def _affine(dtype: torch.dtype, count: int) -> tuple[Tensor, Tensor]:
    return _numbers(dtype, count), _numbers(dtype, count)


def cross_entropy_loss(dtype: torch.dtype) -> Iterator[Call]:
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
        yield (_numbers(dtype, 230, 5000), target), dict(keywords)


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
        states = _numbers(dtype, *rows, 24)
        weight = (torch.randn(12001, 24) / 4).to(dtype).requires_grad_()
        added = _numbers(dtype, 12001) if bias else None
        yield (states, weight, target, added, reduction, ignored, smoothing), {}


def scaled_dot_product_attention(dtype: torch.dtype) -> Iterator[Call]:
    """Calls of attention: lengths that are not whole blocks, and masks of all forms."""
    operands = partial(_heads, dtype)
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
    operands = partial(_heads, dtype)
    yield operands(1024, 1024), {"is_causal": True}
    yield operands(1030, 1030), {"is_causal": True, "scale": 0.3}
    yield operands(1025, 1100), {"is_causal": True}
    yield operands(1030, 1100, 1), {"is_causal": True, "enable_gqa": True}


def _heads(
    dtype: torch.dtype, length: int, keys: int, heads: int = 2
) -> tuple[Tensor, Tensor, Tensor]:
    shapes = ((1, 2, length, 8), (1, heads, keys, 8), (1, heads, keys, 12))
    query, key, value = (_numbers(dtype, *shape) for shape in shapes)
    return query, key, value


def embedding_dense_backward(dtype: torch.dtype) -> Iterator[Call]:
    """Calls of `aten::embedding`, with indices that occur several times."""
    for shape, padding in (((200,), -1), ((5, 30), 3)):
        indices = torch.randint(0, 40, shape) * 100
        indices[..., ::7] = max(padding, 0)
        yield (_numbers(dtype, 4096, 256), indices, padding), {}


def topk(dtype: torch.dtype) -> Iterator[Call]:
    """Calls of `aten::topk`; no two elements are equal, because any of equal ones is right."""
    for shape, options in (
        ((300, 8), {"k": 2}),
        ((3, 90, 100), {"k": 8, "largest": False}),
        ((256, 5), {"k": 5, "dim": 1}),
    ):
        order = torch.rand(*shape).argsort(-1)
        yield ((order - shape[-1] / 2).to(dtype),), dict(options)


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


upsample_bilinear2d_backward = upsample_bilinear2d


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
