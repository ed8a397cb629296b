"""A small transformer, trained in a few steps."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def made(make: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return make()


class Block(nn.Module):
    """Operators and functions that entries catch, in both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 16)
        self.norm = nn.LayerNorm(16)
        self.rms = nn.RMSNorm(16)
        self.qkv = nn.Linear(16, 48)
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 16)
        self.head = nn.Linear(16, 11, bias=False)
        self.head.weight = self.embed.weight  # tied

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        q, k, v = (
            t.unflatten(-1, (2, 8)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1)
        )
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + attended.transpose(1, 2).flatten(-2)
        x = self.down(F.gelu(self.up(self.rms(x))))  # no residual: see docs/known-differences.md
        return F.cross_entropy(self.head(x).flatten(0, 1), tokens.flatten())


TOKENS = torch.arange(24).reshape(2, 12) * 7 % 11


def losses(model: nn.Module, call: Any, steps: int = 4) -> list[float]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    result = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = call(TOKENS)
        loss.backward()
        optimizer.step()
        result.append(loss.item())
    return result
