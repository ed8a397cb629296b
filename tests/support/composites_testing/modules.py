"""Modules that call a function, for exports of it."""

from collections.abc import Callable
from typing import Any

import torch


class Calling(torch.nn.Module):
    """Calls a function with its arguments."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *arguments: torch.Tensor) -> Any:
        return self.function(*arguments)


class Computed(torch.nn.Module):
    """A linear layer, and what `function(module, *arguments)` makes of it."""

    def __init__(self, function: Callable[..., Any], **attributes: Any) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.function = function
        for name, value in attributes.items():
            setattr(self, name, value)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self, *args, **kwargs)


class TwoLayers(torch.nn.Module):
    """Two linear layers with a gelu between them, and a loss of what they give."""

    def __init__(self, loss: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 16), torch.nn.Linear(16, 6)
        self.loss = loss

    def forward(self, x: torch.Tensor, *targets: torch.Tensor) -> torch.Tensor:
        return self.loss(self.second(torch.nn.functional.gelu(self.first(x))), *targets)


class CallingWithWeight(torch.nn.Module):
    """Calls a function with its weight, `[4, 6]`, and returns a loss of the result."""

    def __init__(self, function: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.function = function
        self.weight = torch.nn.Parameter(torch.randn(4, 6, generator=torch.manual_seed(0)))

    def forward(self) -> torch.Tensor:
        return self.function(self.weight).square().sum()
