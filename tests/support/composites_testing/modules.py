"""Modules that call a function, for exports of it."""

from collections.abc import Callable
from typing import Any

import torch


class Calling(torch.nn.Module):
    """Calls a function with its argument."""

    def __init__(self, function: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


class CallingWithWeight(torch.nn.Module):
    """Calls a function with its weight, `[4, 6]`, and returns a loss of the result."""

    def __init__(self, function: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.function = function
        self.weight = torch.nn.Parameter(torch.randn(4, 6, generator=torch.manual_seed(0)))

    def forward(self) -> torch.Tensor:
        return self.function(self.weight).square().sum()
