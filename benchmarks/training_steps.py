"""Whole training steps at sizes where attention, the loss and the optimizer cost something."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.cases import UPDATE, Mode, Place
from benchmarks.training_models import ARCHITECTURES, Batch, transformers_model
from benchmarks.unet import unet  # noqa: F401 (of decomposition_cases.yaml)


@dataclass(frozen=True, slots=True)
class Training:
    """A module that returns its loss, what it is trained on, and AdamW."""

    build: Callable[[], tuple[nn.Module, Batch]]

    def placed(
        self, place: Place, wrap: Callable[[Any], Any] = lambda module: module
    ) -> PlacedTraining:
        """A copy whose tensors are `place(tensor)`, called as `wrap` returns it."""
        module, batch = self.build()
        apply: Any = copy.deepcopy(module).train()._apply  # it has no type hints
        module = apply(place)
        on_cpu = next(module.parameters()).is_cpu
        # PyTorch's fastest on the CPU; XLA tensors have no fused kernel.
        optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3, fused=on_cpu)
        placed = {name: place(tensor) for name, tensor in batch.items()}
        return PlacedTraining(wrap(module), placed, optimizer)


@dataclass(frozen=True, slots=True)
class PlacedTraining:
    """A module on a device, and its optimizer."""

    module: Callable[..., Tensor]
    batch: Batch
    optimizer: torch.optim.Optimizer

    def traced(self, mode: Mode) -> Sequence[Tensor]:
        """Run a step. The parameters hold all that it computes but the loss."""
        assert mode == UPDATE
        self.optimizer.zero_grad()
        loss = self.module(**self.batch)
        loss.backward()
        self.optimizer.step()
        return (loss.detach(),)


class OwnLoss(nn.Module):
    """A model of transformers that returns its loss."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, **batch: Tensor) -> Tensor:
        loss: Tensor = self.model(**batch).loss
        return loss


_FILE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))


def model_of(name: str) -> nn.Module:
    """A model of the YAML file, with random weights."""
    return transformers_model(_FILE[name]["module"], **_FILE[name]["settings"])


def tokens_of(name: str) -> Tensor:
    """Tokens for one of these models, without the three first ones."""
    return torch.randint(3, _FILE[name]["settings"]["vocab_size"], _FILE[name]["shape"])


def language_model_step(name: str) -> tuple[nn.Module, Batch]:
    """A model of the YAML file, which returns its loss, and its tokens."""
    model, tokens = model_of(name), tokens_of(name)
    return OwnLoss(model), {"input_ids": tokens, "labels": tokens}


gpt2, llama = (partial(language_model_step, name) for name in ("gpt2", "llama"))


def architecture(name: str) -> tuple[nn.Module, Batch]:
    """A model of benchmarks/training_models.py with larger sizes."""
    made = ARCHITECTURES[name].build_larger()
    return OwnLoss(made.module), made.batch


class Block(nn.Module):
    """Causal attention and an MLP."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).chunk(3, -1)
        )
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        result: Tensor = x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))
        return result


class CausalGPT(nn.Module):
    """A GPT that returns its loss."""

    def __init__(self, vocabulary: int, width: int, heads: int, layers: int, length: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.randn(length, width) * 0.02)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        hidden = self.tokens(tokens) + self.positions
        for block in self.blocks:
            hidden = block(hidden)
        logits = self.head(self.norm(hidden))
        return functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


def causal_gpt(
    length: int, vocabulary: int = 16384, width: int = 384, layers: int = 4
) -> tuple[nn.Module, Batch]:
    """A GPT and one sequence."""
    model = CausalGPT(vocabulary, width, width // 64, layers, length)
    tokens, labels = (torch.randint(vocabulary, (1, length)) for _ in range(2))
    return model, {"tokens": tokens, "labels": labels}
