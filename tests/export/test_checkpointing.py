"""Parts of a module that are computed again in the backward: with the same weights, which are
inputs, and with the same random numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import torch

import composites

if find_spec("torch_xla") is not None:
    # torch.utils.checkpoint asks for `torch.xla`, which there is not.
    from torch_xla.utils.checkpoint import checkpoint

    CHECKPOINTS: list[Callable[..., Any]] = [checkpoint]
else:
    from torch.utils.checkpoint import checkpoint

    CHECKPOINTS = [
        partial(checkpoint, use_reentrant=False),
        partial(checkpoint, use_reentrant=True),
    ]


class Blocks(torch.nn.Module):
    def __init__(self, call: Callable[..., Any]) -> None:
        super().__init__()
        self.call = call
        self.linear = torch.nn.Linear(8, 8)
        self.norm = torch.nn.LayerNorm(8)

    def block(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(self.norm(self.linear(x)).tanh(), 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.block(x)
        for _ in range(2):
            x = self.call(self.block, x)
        return x.square().sum()


@pytest.mark.parametrize("called", CHECKPOINTS, ids=range(len(CHECKPOINTS)))
def test_gradients_are_those_without_checkpoints(called: Callable[..., Any]) -> None:
    def plainly(function: Callable[..., Any], x: torch.Tensor) -> Any:
        return function(x)

    x = torch.randn(4, 8)
    results = []
    for call in (plainly, called):
        torch.manual_seed(0)
        model = Blocks(call)
        step = composites.export(model, (x,), train=True).compile("cpu")
        results.append(step(step.init(dict(model.named_parameters())), x)[0])
    plain, again = results
    assert plain.keys() == again.keys()
    for name, expected in plain.items():
        np.testing.assert_allclose(again[name], expected, rtol=1e-5, atol=2e-5, err_msg=name)
