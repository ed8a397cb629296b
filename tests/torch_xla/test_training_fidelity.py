"""Twenty steps of AdamW on a small transformer: composites change no bit of what is learned."""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
import torch_xla.core.xla_model as xm
from composites_testing.selection import variants
from composites_testing.tensors import compilations
from torch import nn

import composites

STEPS = 20
TOKENS = 61


class Block(nn.Module):
    """Attention written with F.softmax, and a GELU MLP."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(self.norm(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / math.sqrt(width // self.heads)
        attention = F.softmax(F.dropout(scores, 0.1), dim=-1)
        x = x + self.out((attention @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(x)


class Transformer(nn.Module):
    """A language model without a line of any library but PyTorch."""

    def __init__(self, layers: int = 2, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.head = nn.Linear(width, TOKENS)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        logits = self.head(self.blocks(self.embedding(tokens)))
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


class MixedPrecision(Transformer):
    """Weights in f32, products in bf16."""

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        with torch.autocast("xla", dtype=torch.bfloat16):
            return super().forward(tokens)


@dataclass(frozen=True, slots=True)
class Model:
    make: Callable[[], nn.Module]
    composites: dict[str, int]
    """In one step."""


def both_ways(**forward: int) -> dict[str, int]:
    return {f"ptxla.{name}{way}": n for name, n in forward.items() for way in ("", "_backward")}


EMBEDDING = {"ptxla.embedding": 1, "ptxla.embedding_dense_backward": 1}
MODELS = {
    "f32": Model(
        Transformer,
        both_ways(gelu=2, softmax=2, dropout=2, layer_norm=4, cross_entropy_loss=1) | EMBEDDING,
    ),
    "autocast": Model(
        partial(MixedPrecision, layers=1),
        both_ways(gelu=1, softmax=1, dropout=1, layer_norm=2, cross_entropy_loss=1) | EMBEDDING,
    ),
}


@dataclass(frozen=True, slots=True)
class Training:
    """What a training run leaves."""

    tensors: dict[str, torch.Tensor]
    """Losses, gradients of the last step, weights and the optimizer's state."""
    stablehlo: str
    """Of the first step's loss and gradients."""
    compilations: int


def train(model: Model, execute: Callable[[list[torch.Tensor]], None]) -> Training:
    torch.manual_seed(0)
    module = model.make().to("xla").train()
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2, weight_decay=0.1)
    execute(list(module.parameters()))
    compiled_before = compilations()
    losses: list[torch.Tensor] = []
    stablehlo = ""
    for step, tokens in enumerate(batches()):
        xm.set_rng_state(step)  # otherwise the dropout's seed is computed from all steps before
        optimizer.zero_grad()
        loss = module(tokens)
        loss.backward()
        gradients = [p.grad for p in module.parameters() if p.grad is not None]
        stablehlo = stablehlo or xm.get_stablehlo([loss, *gradients])
        optimizer.step()
        state = [t for s in optimizer.state.values() for t in s.values() if t.device.type == "xla"]
        execute([loss.detach(), *gradients, *module.parameters(), *state])
        losses.append(loss.detach())
    left = {f"loss {step}": loss for step, loss in enumerate(losses)}
    for name, parameter in module.named_parameters():
        left[name] = parameter
        left |= {} if parameter.grad is None else {f"gradient of {name}": parameter.grad}
        left |= {f"{key} of {name}": value for key, value in optimizer.state[parameter].items()}
    on_cpu = {name: t.detach().cpu() for name, t in left.items()}
    return Training(on_cpu, stablehlo, compilations() - compiled_before)


def batches() -> Iterator[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    for _ in range(STEPS):
        yield torch.randint(TOKENS, (4, 16), generator=generator).to("xla")


@variants("name", MODELS)
def test_training_is_that_of_stock(
    name: str,
    execute: Callable[[list[torch.Tensor]], None],
    same_bits: Callable[[Any, Any], bool],
    written_composites: Callable[[str], Counter[str]],
) -> None:
    model = MODELS[name]
    stock = train(model, execute)
    with composites.enabled("all"):
        ours = train(model, execute)

    assert not written_composites(stock.stablehlo)
    assert written_composites(ours.stablehlo) == model.composites
    assert list(ours.tensors) == list(stock.tensors)
    differing = [n for n, t in stock.tensors.items() if not same_bits(t, ours.tensors[n])]
    assert not differing
    # Something was learned, and numbers that change with every step compile nothing anew.
    assert ours.tensors[f"loss {STEPS - 1}"] != ours.tensors["loss 0"]
    assert all(t.isfinite().all() for t in ours.tensors.values())
    assert 0 < ours.compilations == stock.compilations < STEPS
