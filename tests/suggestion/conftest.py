"""A small model with a norm, a gate and a soft cap of its own, in a file."""

from pathlib import Path

import pytest

MODEL = """\
from __future__ import annotations
from dataclasses import dataclass
import torch
from torch import nn

@dataclass(kw_only=True)
class Config:
    eps: float = 1e-6

class Norm(nn.Module):
    def __init__(self, width, config):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = config.eps
    def _scaled(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
    def forward(self, x):
        return self.weight * self._scaled(x)

def soft_cap(x, cap: float):
    return torch.tanh(x / cap) * cap

class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = nn.Tanh()
    def forward(self, x, scale=None):
        return self.act(x.pow(2).mean(-1, keepdim=True) + 1) * x

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.gate, self.up = Norm(8, Config()), Gate(), nn.Linear(8, 8)
    def forward(self, x):
        hidden = self.gate(nn.functional.gelu(self.up(self.norm(x))))
        return {"out": soft_cap(hidden, 30.0), "hidden": hidden}

def net():
    return Net(), (torch.randn(2, 8),)

class Reads(nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x

def reads():
    return Reads(), (torch.ones(2, requires_grad=True),)

class Fails(nn.Module):
    def forward(self, x):
        return x.reshape(3)

def fails():
    return Fails(), (torch.ones(2),)

def counts():
    return nn.Flatten(), (torch.ones(2, 2, dtype=torch.int64),)

def linear():
    return nn.Linear(4, 4), (torch.ones(2, 4),)
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model_of_suggest.py"
    path.write_text(MODEL)
    return path
