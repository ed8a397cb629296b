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
from torch.utils.checkpoint import checkpoint

import composites

CHECKPOINTS: list[Callable[..., Any]] = [
    partial(checkpoint, use_reentrant=False),
    partial(checkpoint, use_reentrant=True),
]
if find_spec("torch_xla") is not None:
    from torch_xla.utils.checkpoint import checkpoint as checkpoint_of_torch_xla

    CHECKPOINTS.append(checkpoint_of_torch_xla)


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


class Drawing(torch.nn.Module):
    """A checkpointed part draws random numbers that are no composite, first or after others."""

    def __init__(self, call: Callable[..., Any], before: bool) -> None:
        super().__init__()
        self.call, self.before = call, before
        self.first, self.linear = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def part(self, x: torch.Tensor) -> torch.Tensor:
        return (self.linear(x) * torch.rand_like(x)).tanh()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        x = x * torch.rand_like(x) if self.before else x
        loss: torch.Tensor = self.call(self.part, x).square().sum()
        return loss


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("called", CHECKPOINTS, ids=range(len(CHECKPOINTS)))
def test_random_numbers_of_no_composite(called: Callable[..., Any], before: bool) -> None:
    x = torch.ones(4, 8)
    model = Drawing(called, before)
    found = [
        composites.export(each, (x,), train=True).compile("cpu")
        for each in (model, Drawing(lambda part, x: part(x), before))
    ]
    again, plain = (step(step.init(model.state_dict()), x)[0] for step in found)
    for name, expected in plain.items():
        np.testing.assert_allclose(again[name], expected, rtol=1e-6, atol=1e-6, err_msg=name)


class Counting(torch.nn.Module):
    count: torch.Tensor

    def __init__(self, call: Callable[..., Any]) -> None:
        super().__init__()
        self.call = call
        self.first, self.linear = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)
        self.register_buffer("count", torch.zeros(()))

    def part(self, x: torch.Tensor) -> torch.Tensor:
        self.count = self.count + 1
        return self.linear(x).tanh()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = self.call(self.part, self.first(x)).square().sum()
        return loss


@pytest.mark.parametrize("called", CHECKPOINTS, ids=range(len(CHECKPOINTS)))
def test_a_buffer_that_a_part_assigns_is_assigned_twice(called: Callable[..., Any]) -> None:
    model = Counting(called)
    step = composites.export(model, (torch.ones(2, 8),), train=True).compile("cpu")
    _, state = step(step.init(model.state_dict()), torch.ones(2, 8))
    assert float(state.values["buffer:count"]) == 2
