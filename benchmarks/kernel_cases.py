"""Calls and training steps that benchmarks/kernels.py measures kernels in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.cases import (
    BF16,
    Case,
    attention,
    conv,
    cross_entropy,
    embedding,
    grid_sampling,
    group_norm,
    images,
    layer_norm,
    max_pool,
    resampling,
    softmax,
)
from benchmarks.training_steps import Batch, OwnLoss, architecture, causal_gpt, gpt2
from benchmarks.unet import ResidualBlock, SelfAttention


@dataclass(frozen=True, slots=True)
class Growing:
    """Calls of one kind with growing sizes, which show from where on a kernel pays."""

    name: str
    composites: Sequence[str]
    cases: Sequence[Case]
    size: str
    """What a condition of the registry compares: an expression of the operands' shapes."""
    measure: Callable[[Case], int]
    """Its value for a case."""
    namespace: str = "ptxla"

    @property
    def full_names(self) -> Sequence[str]:
        """The composites, with their namespace."""
        return [f"{self.namespace}.{name}" for name in self.composites]


CASES: Sequence[Case] = (
    cross_entropy(1024, 50257),
    cross_entropy(1024, 16384),
    cross_entropy(1024, 50257, BF16),
    attention(512),
    attention(1024),
    attention(512, mask="boolean"),
    attention(512, mask="none"),
    attention(512, dropout=0.1),
    attention(512, dtype=BF16),
    images("bilinear", resampling("bilinear"), 4, 64, 64, 64, upsample_bilinear2d=5.0),
    grid_sampling(4, 64, 64, 64),
    grid_sampling(4, 64, 64, 64, mode="bicubic", padding="reflection"),
    grid_sampling(4, 64, 64, 64, dtype=BF16),
    images("max pool", max_pool, 4, 64, 64, 64),
    group_norm(4, 64, 64, 64),
    layer_norm(1024, 384),
    layer_norm(4096, 768),
    softmax(6144, 512),
    softmax(1024, 16384),
    softmax(6144, 512, logarithm=True),
    images("dropout", functional.dropout, 4, 64, 64, 64),
    embedding(1024, 50257),
    conv(4, 64, 64, 64, channels=64),
    conv(4, 256, 16, 16, channels=256),
    conv(4, 256, 32, 32, channels=64, kernel=1),
    conv(4, 64, 56, 56, channels=128, stride=2),
    conv(4, 3, 224, 224, channels=384, kernel=16, stride=16),
    conv(4, 96, 56, 56, channels=96, kernel=7, groups=96),
    conv(4, 128, 1024, channels=128),
    conv(2, 16, 16, 32, 32, channels=16),
    conv(4, 64, 64, 64, channels=64, dtype=BF16),
)


def _numbers(case: Case) -> int:
    """The number of elements of the first operand."""
    return next(iter(case.operands().values())).numel()


def _products(case: Case) -> int:
    x, weight, _ = case.operands().values()
    return x.numel() // x.shape[1] * weight.numel()


def _scores(case: Case) -> int:
    query, key, _ = case.operands().values()
    return query.numel() * key.shape[-2]


GROWING: Sequence[Growing] = (
    Growing(
        "attention",
        ("scaled_dot_product_attention", "scaled_dot_product_attention_backward"),
        [attention(length) for length in (32, 64, 96, 128, 192, 256, 384)],
        "query.numel() * key.shape[-2]",
        _scores,
    ),
    Growing(
        "cross entropy",
        ("cross_entropy_loss", "cross_entropy_loss_backward"),
        [cross_entropy(2 * size, 16 * size) for size in (4, 8, 16, 32, 64, 128)],
        "logits.numel()",
        _numbers,
    ),
    Growing(
        "bilinear",
        ("upsample_bilinear2d", "upsample_bilinear2d_backward"),
        [
            images("bilinear", resampling("bilinear"), 2, 8, size, size)
            for size in (4, 8, 16, 32, 64)
        ],
        "x.numel()",
        _numbers,
    ),
    Growing(
        "grid sampling",
        ("grid_sampler_2d", "grid_sampler_2d_backward"),
        [grid_sampling(2, 8, size, size) for size in (2, 4, 8, 16, 32, 64)],
        "input.numel()",
        _numbers,
    ),
    Growing(
        "max pool",
        ("max_pool2d_backward",),
        [images("max pool", max_pool, 2, 8, size, size) for size in (8, 16, 32, 64, 128)],
        "x.numel()",
        _numbers,
    ),
    Growing(
        "group norm",
        ("group_norm_backward",),
        [group_norm(2, 32, size, size) for size in (4, 8, 16, 32, 64)],
        "x.numel()",
        _numbers,
    ),
    Growing(
        "layer norm",
        ("layer_norm_backward",),
        [layer_norm(rows, 384) for rows in (4, 16, 64, 256, 1024)],
        "x.numel()",
        _numbers,
    ),
    *(
        Growing(
            "log_softmax" if logarithm else "softmax",
            ("log_softmax_backward" if logarithm else "softmax_backward",),
            [softmax(rows, 256, logarithm=logarithm) for rows in (4, 16, 64, 256, 1024)],
            "output.numel()",
            _numbers,
        )
        for logarithm in (False, True)
    ),
    Growing(
        "dropout",
        ("dropout", "dropout_backward"),
        [images("dropout", functional.dropout, size) for size in (256, 1024, 4096, 16384, 65536)],
        "x.numel()",
        _numbers,
    ),
    Growing(
        "embedding",
        ("embedding_dense_backward",),
        [embedding(64, size) for size in (64, 256, 1024, 4096, 16384, 50257)],
        "num_weights * grad_output.shape[-1]",
        _numbers,
    ),
    Growing(
        "convolution",
        ("conv", "conv_backward"),
        [conv(2, size, size, size, channels=size) for size in (4, 8, 12, 16, 24, 32)],
        "x.numel() // x.shape[1] * weight.numel()",
        _products,
        "cpu_kernels",
    ),
)


class Weighted(nn.Module):
    """One parameter, whose gradient is an input: a step is little more than the update."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(shape))

    def forward(self, gradient: Tensor) -> Tensor:
        return (self.weight * gradient).sum()


# ---- training steps ----


class UNet(nn.Module):
    """One level down and up again, with attention at the bottom; returns its loss."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.down, self.up = ResidualBlock(channels), ResidualBlock(channels)
        self.middle = SelfAttention(channels)

    def forward(self, sample: Tensor, time: Tensor, noise: Tensor) -> Tensor:
        fine = self.down(sample, time)
        coarse = self.middle(functional.max_pool2d(fine, 2))
        raised = functional.interpolate(coarse, scale_factor=2.0, mode="bilinear")
        return functional.mse_loss(self.up(fine + raised, time), noise)


def unet(channels: int = 64, size: int = 64) -> tuple[nn.Module, Batch]:
    """Four images."""
    sample, noise = (torch.randn(4, channels, size, size) for _ in range(2))
    return UNet(channels), {"sample": sample, "time": torch.randn(4, channels), "noise": noise}


def vit(size: int = 224, layers: int = 4) -> tuple[nn.Module, Batch]:
    """ViT of transformers, four images of 196 patches, without dropout."""
    from transformers import ViTConfig, ViTForImageClassification

    dropout: dict[str, Any] = dict.fromkeys(
        ("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.0
    )
    config = ViTConfig(
        hidden_size=384,
        num_hidden_layers=layers,
        num_attention_heads=6,
        intermediate_size=1536,
        image_size=size,
        **dropout,
    )
    config.num_labels = 1000
    batch = {"pixel_values": torch.randn(4, 3, size, size), "labels": torch.randint(1000, (4,))}
    return OwnLoss(ViTForImageClassification(config)), batch


@dataclass(frozen=True, slots=True)
class StepCase:
    """A training step with AdamW."""

    name: str
    build: Callable[[], tuple[nn.Module, Batch]]
    bar: float | None = None
    """How many times faster than stock's decompositions a step with kernels is to be."""


STEPS: Sequence[StepCase] = (
    StepCase("GPT d384, 4 layers, L 1024, 16384 tokens", partial(causal_gpt, 1024), 1.35),
    StepCase("GPT-2 2x512, 50257 tokens", gpt2, 1.35),
    StepCase("U-Net, 4x64x64x64", unet, 1.6),
    StepCase("ViT, 4x197x384", vit),
)
NOT_TUNED = (
    *("bert", "roberta", "albert", "electra", "opt", "gpt_neox"),
    *("mistral", "qwen2", "gemma", "phi", "olmo2", "stablelm"),
)
"""Of benchmarks/training_models.py: where the automatic choice has only not to lose."""
OTHERS: Sequence[StepCase] = tuple(
    StepCase(name, partial(architecture, name), 0.98) for name in NOT_TUNED
)
