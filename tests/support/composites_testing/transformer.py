"""Small transformers, and one that is trained in a few steps."""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def made(make: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return make()


class AttentionBlock(nn.Module):
    """Attention written out, and a GELU MLP, each on the norm of a residual stream."""

    def __init__(self, width: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()
        self.mlp = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(self.norm(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / math.sqrt(width // self.heads)
        attended = F.softmax(self.dropout(scores), dim=-1) @ v
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(x)


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
