"""Parts of a module that are computed again in the backward: with the same weights, which are
inputs, and with the same random numbers."""

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import composites

CHECKPOINTS: list[Callable[..., Any]] = [
    partial(checkpoint, use_reentrant=False),
    partial(checkpoint, use_reentrant=True),
]
if find_spec("torch_xla") is not None:
    from torch_xla.utils.checkpoint import checkpoint as checkpoint_of_torch_xla

    CHECKPOINTS.append(checkpoint_of_torch_xla)


def scaled(x: torch.Tensor) -> torch.Tensor:
    """Draws random numbers that are not a composite."""
    return x * torch.rand_like(x)


class Blocks(torch.nn.Module):
    """Blocks that draw random numbers: two that are checkpointed, and one before them."""

    def __init__(self, call: Callable[..., Any], draw: Callable[..., Any], before: bool) -> None:
        super().__init__()
        self.call, self.draw, self.before = call, draw, before
        self.first, self.linear = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)
        self.norm = torch.nn.LayerNorm(8)

    def block(self, x: torch.Tensor) -> Any:
        return self.draw(self.norm(self.linear(x)).tanh())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        x = self.block(x) if self.before else x
        for _ in range(2):
            x = self.call(self.block, x)
        return x.square().sum()


@pytest.mark.parametrize(
    ("draw", "before"), [(functional.dropout, True), (scaled, True), (scaled, False)]
)
@pytest.mark.parametrize("called", CHECKPOINTS, ids=range(len(CHECKPOINTS)))
def test_gradients_are_those_without_checkpoints(
    called: Callable[..., Any], draw: Callable[..., Any], before: bool
) -> None:
    def plainly(function: Callable[..., Any], x: torch.Tensor) -> Any:
        return function(x)

    x = torch.randn(4, 8)
    results = []
    for call in (plainly, called):
        torch.manual_seed(0)
        model = Blocks(call, draw, before)
        step = composites.export(model, (x,), train=True).compile("cpu")
        results.append(step(step.init(model.state_dict()), x)[0])
    plain, again = results
    assert plain.keys() == again.keys()
    for name, expected in plain.items():
        np.testing.assert_allclose(again[name], expected, rtol=1e-5, atol=2e-5, err_msg=name)
