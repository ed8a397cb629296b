"""Calls and training steps that benchmarks/kernels.py measures kernels in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
import yaml
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.cases import Case, parse_case
from benchmarks.training_models import Batch
from benchmarks.training_steps import OwnLoss, architecture, causal_gpt, gpt2, model_of
from benchmarks.unet import ResidualBlock, SelfAttention

MEASURES: Mapping[str, Callable[..., int]] = {
    "numbers": lambda first, *_: int(first.numel()),
    "products": lambda x, weight, *_: int(x.numel() // x.shape[1] * weight.numel()),
    "scores": lambda query, key, *_: int(query.numel() * key.shape[-2]),
    "weights": lambda _, weight, *__: int(weight.numel()),
}


@dataclass(frozen=True, slots=True)
class Growing:
    """Calls of one operator with growing sizes, which show from where on a kernel pays."""

    name: str
    composites: Sequence[str]
    sizes: Sequence[Sequence[int]]
    size: str
    """The left side of a condition in the registry: an expression of the operands' shapes."""
    measure: str = "numbers"

    @property
    def cases(self) -> list[tuple[int, Case]]:
        """The cases, with the value of `size`."""
        measure = MEASURES[self.measure]
        cases = [self._case(sizes) for sizes in self.sizes]
        return [(measure(*case.operands().values(), *case.constants()), case) for case in cases]

    def _case(self, sizes: Sequence[int]) -> Case:
        if self.name == "convolution":
            return parse_case(self.name, sizes, channels=sizes[1])
        return parse_case(self.name, sizes)


_FILE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
CASES: Sequence[Case] = [parse_case(**row) for row in _FILE["cases"]]
ON_GPUS: Sequence[Case] = [parse_case(**row) for row in _FILE["on GPUs"]]
"""Calls that alternatives for XLA's CPU backend take."""
GROWING: Sequence[Growing] = [Growing(name, **row) for name, row in _FILE["growing"].items()]


class Weighted(nn.Module):
    """A parameter whose gradient is an input: a step is little more than the update."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(shape))

    def forward(self, gradient: Tensor) -> Tensor:
        return (self.weight * gradient).sum()


# ---- training steps ----


class UNet(nn.Module):
    """A U-Net with one level down and up, and attention at the bottom; returns its loss."""

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


def vit() -> tuple[nn.Module, Batch]:
    """ViT of transformers, four images of 196 patches, without dropout."""
    model = OwnLoss(model_of("vit"))
    images, labels = torch.randn(4, 3, 224, 224), torch.randint(1000, (4,))
    return model, {"pixel_values": images, "labels": labels}


@dataclass(frozen=True, slots=True)
class StepCase:
    """A training step with AdamW."""

    name: str
    build: Callable[[], tuple[nn.Module, Batch]]
    bar: float | None = None
    """The factor by which a step with kernels is to be faster than stock's decompositions."""


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
"""Models of benchmarks/training_models.py: there, the automatic choice only must not lose."""
OTHERS: Sequence[StepCase] = tuple(
    StepCase(name, partial(architecture, name), 0.98) for name in NOT_TUNED
)
