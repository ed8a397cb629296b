"""Kernels against the decompositions that they replace, forward and backward."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from composites_testing import environment
from composites_testing.kernel_samples import BF16, F32, Sample, kernels_of
from composites_testing.kernel_samples import loss as loss_of
from composites_testing.processes import run
from torch import Tensor
from torch.nn import functional

from composites.operators import quantized_linear
from composites.operators.linear_cross_entropy import linear_cross_entropy
from lowering.stablehlo import compare


def attention(*shapes: tuple[int, ...], **keywords: Any) -> Sample:
    chosen = {key: keywords.pop(key) for key in ("constants", "dtype") if key in keywords}
    function = functional.scaled_dot_product_attention
    # The decomposition of the gradient has the composite of softmax's, and both have dropout's.
    calls = 5 if keywords.get("dropout_p") else 3
    return Sample(function, shapes, keywords=keywords, calls=calls, **chosen)


def masked(mask: Callable[[], Tensor], **keywords: Any) -> Sample:
    return attention(*[(2, 4, 33, 16)] * 3, constants=lambda: (mask(),), **keywords)


def loss(rows: int = 40, classes: int = 300, weighted: bool = False, **keywords: Any) -> Sample:
    sample = loss_of(rows, classes, **keywords)
    if weighted:
        sample = replace(sample, constants=lambda: (torch.randint(3, (rows,)), torch.rand(classes)))
    # In f32, without weights and smoothing, the gradient is computed from what the forward saved.
    # Otherwise its decomposition has the composite of log_softmax's.
    plain = sample.dtype == F32 and not weighted and "label_smoothing" not in keywords
    return replace(sample, calls=2 if plain else 3)


def conv(function: Callable[..., Tensor], *operands: tuple[int, ...], **keywords: Any) -> Sample:
    """Images, weights, and perhaps a bias."""
    return Sample(function, operands, dtype=keywords.pop("dtype", F32), keywords=keywords)


def sampled(
    image: tuple[int, ...] = (2, 5, 8, 9),
    points: tuple[int, ...] = (2, 6, 7),
    dtype: torch.dtype = F32,
    **keywords: Any,
) -> Sample:
    """A sampling at random points, half of which lie outside the image."""
    keywords = {"align_corners": False, **keywords}
    return Sample(functional.grid_sample, [image, (*points, 2)], dtype=dtype, keywords=keywords)


def sample_at_points(grid: Tensor, image: Tensor) -> Tensor:
    return functional.grid_sample(image, grid, align_corners=False)


def layer_norm(x: tuple[int, ...], normal: tuple[int, ...], dtype: torch.dtype = F32) -> Sample:
    def call(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return functional.layer_norm(x, normal, weight, bias)

    return Sample(call, [x, normal, normal], dtype=dtype, calls=1)


def softmax(
    function: Callable[..., Tensor], x: tuple[int, ...], dtype: torch.dtype = F32
) -> Sample:
    return Sample(function, [x], dtype=dtype, keywords={"dim": -1}, calls=1)


def empty_rows() -> Tensor:
    """Rows of queries that may look at nothing, and keys at the end that nobody looks at."""
    kept = torch.rand(33, 33) < 0.5
    kept[5] = False
    kept[:, 20:] = False
    return kept


def lowest_rows() -> Tensor:
    """The mask value of transformers, which can also be added to all scores of a row."""
    return torch.where(empty_rows(), 0.0, torch.finfo(F32).min)


def quantized(name: str, *groups: int, **keywords: Any) -> Sample:
    """Seven rows and a bias, with a weight of 5 rows and 38 columns."""
    dtype = keywords.pop("dtype", F32)

    def constants() -> list[Tensor]:
        weight = torch.randint(-128, 128, (5, 38), dtype=torch.int8)
        zeros = [torch.randint(-8, 8, (5, count), dtype=torch.int8) for count in groups]
        return [torch.randn(5, *(groups or (1,))).to(dtype), weight, *zeros]

    def call(x: Tensor, bias: Tensor, scale: Tensor, weight: Tensor, *zeros: Tensor) -> Tensor:
        return getattr(quantized_linear, name)(x, weight, scale, *zeros, bias, **keywords)

    return Sample(call, [(1, 7, 38), (5,)], constants, dtype, calls=1)


THREE = [(2, 4, 33, 16)] * 3
upsample = partial(functional.interpolate, mode="bilinear")
conv2d = partial(conv, functional.conv2d)
conv_transpose2d = partial(conv, functional.conv_transpose2d)
SAMPLES: Mapping[str, Sample] = {
    "attention": attention(*THREE),
    "attention, causal": attention(*THREE, is_causal=True),
    "attention, causal, fewer keys": attention(
        (1, 2, 500, 16), *[(1, 2, 230, 16)] * 2, is_causal=True
    ),
    "attention, boolean mask": masked(lambda: torch.rand(2, 1, 1, 33) < 0.6),
    "attention, triangle": attention(
        *[(2, 2, 450, 16)] * 3,
        constants=lambda: (torch.ones(1, 1, 450, 450, dtype=torch.bool).tril(),),
    ),
    "attention, empty rows": masked(empty_rows),
    "attention, added mask": masked(lambda: torch.randn(2, 4, 33, 33)),
    "attention, grouped": attention((2, 4, 33, 16), *[(2, 2, 33, 16)] * 2, enable_gqa=True),
    "attention, values of another size": attention((2, 4, 33, 16), (2, 4, 40, 16), (2, 4, 40, 24)),
    "attention, least numbers": masked(lowest_rows),
    "attention, large scores": Sample(
        lambda q, k, v: functional.scaled_dot_product_attention(30 * q, k, v),
        THREE,
        calls=3,
        tolerance=1e-5,  # of scores of 100, products that add up in another order differ by as much
    ),
    "attention, many keys": replace(
        attention((1, 2, 150, 8), *[(1, 2, 9000, 8)] * 2),
        tolerance=5e-6,  # gradients of a large sum: both differ from those in f64 by more than 2e-6
    ),
    "attention, added mask, bf16": masked(lambda: torch.randn(2, 1, 33, 33).to(BF16), dtype=BF16),
    "attention, dropout": attention(*THREE, dropout_p=0.25),
    "attention, dropout, mask, grouped": attention(
        (2, 4, 33, 16),
        *[(2, 2, 33, 16)] * 2,
        constants=lambda: (empty_rows(),),
        enable_gqa=True,
        dropout_p=0.5,
    ),
    "attention, bf16": attention(*THREE, is_causal=True, dtype=BF16),
    "loss, large": loss(180, 50257),  # written past the caches, from 32 MB on
    "loss, large, bf16": loss(353, 50257, label_smoothing=0.1, dtype=BF16),
    "loss": loss(),
    "loss, smooth, weights, ignored": loss(
        weighted=True, labels=4, ignore_index=2, label_smoothing=0.2
    ),
    "loss, bf16": loss(dtype=BF16),
    "loss of a linear layer": Sample(
        linear_cross_entropy,
        [(2, 20, 16), (300, 16)],
        lambda: (torch.randint(300, (2, 20)),),
        calls=4,
    ),
    "loss of a linear layer, bias, none": Sample(
        lambda x, weight, bias, target: linear_cross_entropy(
            x, weight, target, bias, reduction="none"
        ),
        [(20, 16), (300, 16), (300,)],
        lambda: (torch.randint(300, (20,)),),
        calls=4,
    ),
    "bilinear": Sample(upsample, [(2, 5, 16, 18)], keywords={"scale_factor": 2.0}),
    "bilinear, corners": Sample(
        upsample, [(2, 5, 16, 18)], keywords={"size": (37, 21), "align_corners": True}
    ),
    **{
        f"grid sampling, {mode}, {padding}{', corners' if corners else ''}": sampled(
            mode=mode, padding_mode=padding, align_corners=corners
        )
        for mode in ("bilinear", "nearest", "bicubic")
        for padding in ("zeros", "border", "reflection")
        for corners in (False, True)
    },
    "grid sampling, many channels": sampled((3, 37, 5, 6), (3, 4, 4)),
    "grid sampling, one pixel": sampled(
        (2, 3, 1, 1), padding_mode="reflection", align_corners=True
    ),
    "grid sampling, image without gradient": Sample(
        sample_at_points, [(2, 6, 7, 2)], lambda: (torch.randn(2, 5, 8, 9),)
    ),
    "grid sampling, bf16": sampled(dtype=BF16),
    "max pool": Sample(
        functional.max_pool2d, [(2, 3, 16, 18)], keywords={"kernel_size": 2}, calls=1
    ),
    "max pool, padded": Sample(
        functional.max_pool2d,
        [(2, 3, 17, 19)],
        keywords={"kernel_size": (3, 2), "stride": (2, 1), "padding": 1},
        calls=1,
    ),
    "group norm": Sample(
        lambda x, weight, bias: functional.group_norm(x, 4, weight, bias),
        [(2, 8, 6, 7), (8,), (8,)],
        calls=1,
    ),
    "layer norm": layer_norm((2, 41, 30), (30,)),
    "layer norm, long rows": layer_norm((3, 9000), (9000,)),
    "layer norm, bf16": layer_norm((2, 41, 30), (30,), BF16),
    "softmax": softmax(functional.softmax, (2, 41, 30)),
    "log_softmax": softmax(functional.log_softmax, (2, 41, 30)),
    "convolution": conv2d((4, 6, 9, 10), (8, 6, 3, 3), (8,), padding=1),
    "convolution, images without gradient": Sample(
        lambda weight, bias, x: functional.conv2d(x, weight, bias, padding=1),
        [(8, 6, 3, 3), (8,)],
        lambda: (torch.randn(4, 6, 9, 10),),
    ),
    "convolution, one weight": conv2d((4, 6, 9, 10), (8, 6, 1, 1), (8,), padding=(1, 0)),
    "convolution, one image": conv2d((1, 6, 40, 40), (8, 6, 3, 3), (8,)),
    "convolution, stride and dilation": conv2d(
        (2, 4, 19, 16), (6, 4, 3, 3), (6,), stride=(2, 3), padding=(2, 1), dilation=(2, 1)
    ),
    "convolution, depthwise": conv2d((2, 8, 9, 10), (8, 1, 3, 3), (8,), groups=8, padding=1),
    "convolution, 3d": conv(functional.conv3d, (2, 3, 6, 7, 8), (4, 3, 3, 3, 2), (4,), padding=1),
    "convolution, transposed": conv_transpose2d(
        (2, 6, 7, 8), (6, 4, 3, 3), (4,), stride=2, padding=1, output_padding=1
    ),
    "convolution, transposed, groups, dilation": conv_transpose2d(
        (2, 6, 7, 8), (6, 2, 3, 3), (6,), stride=(1, 2), groups=3, dilation=2
    ),
    "convolution, transposed, 3d": conv(
        functional.conv_transpose3d, (2, 4, 4, 5, 6), (4, 3, 2, 3, 3), (3,), stride=2
    ),
    "convolution, bf16": conv2d((2, 6, 9, 10), (8, 6, 3, 3), (8,), padding=1, dtype=BF16),
    "dropout": Sample(
        functional.dropout, [(7, 50, 33)], keywords={"p": 0.1, "training": True}, tolerance=0.0
    ),
    "embedding, padding, by frequency": Sample(
        lambda table, indices: functional.embedding(
            indices, table, padding_idx=3, scale_grad_by_freq=True
        ),
        [(20, 12)],
        lambda: (torch.randint(20, (3, 40)),),
        calls=1,
    ),
    "int8": quantized("int8_weight_only_linear"),
    "int8, bf16": quantized("int8_weight_only_linear", dtype=BF16),
    "integers in groups": quantized("intx_weight_only_linear", 2, group_size=19),
    "integers in groups, bf16": quantized("intx_weight_only_linear", 2, group_size=19, dtype=BF16),
}


FAST = ("softmax",)
"""Kernels are compiled when they are first used, which takes seconds."""


def tier(name: str) -> Any:
    """Weekly runs have more samples of the same code, and samples in bf16."""
    if name in FAST:
        return ()
    many = ("grid sampling, bi", "grid sampling, nearest", "convolution, transposed, ")
    if name.startswith(many) or name.endswith(("1d", "3d", "bf16")):
        return pytest.mark.exhaustive
    return pytest.mark.slow


@pytest.mark.parametrize("name", [pytest.param(name, marks=tier(name)) for name in SAMPLES])
def test_a_kernel_has_the_numbers_of_the_decomposition(name: str, registry: Any) -> None:
    sample = SAMPLES[name]
    program, inputs = sample.program()
    kernels = kernels_of(program, registry)
    result = compare(program.module, kernels, inputs=inputs, tolerance=sample.accepted, timed=False)
    assert not result.problems
    assert len(result.calls) == sample.calls


@pytest.mark.exhaustive
def test_numbers_with_the_flags_of_the_package() -> None:
    command = (sys.executable, "-m", "pytest", "-q", __file__, "-m", "not exhaustive")
    run(*command, **environment.full_level()).succeeded()
