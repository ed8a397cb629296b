"""`torch.cond`, `while_loop`, `scan` and `map` in programs: PyTorch's numbers, and composites in the
regions of StableHLO."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch._higher_order_ops import scan, while_loop
from torch._higher_order_ops.map import map as mapped

import composites
from composites.errors import ExportError
from lowering.export.program import Program

WEIGHT = torch.linspace(-1, 1, 16).reshape(4, 4)


class InPython:
    """The operators as PyTorch's documentation explains them."""

    @staticmethod
    def cond(pred: Any, true: Any, false: Any, operands: Any = ()) -> Any:
        return true(*operands) if pred else false(*operands)

    @staticmethod
    def while_loop(test: Any, step: Any, carried: Any) -> Any:
        while test(*carried):
            carried = step(*carried)
        return carried

    @staticmethod
    def scan(step: Any, carry: Any, xs: torch.Tensor, reverse: bool = False) -> Any:
        ys = []
        for row in xs.flip(0) if reverse else xs:
            carry, y = step(carry, row)
            ys.append(y)
        return carry, torch.stack(ys[::-1] if reverse else ys)

    @staticmethod
    def map(function: Any, xs: torch.Tensor, *further: Any) -> Any:
        return torch.stack([function(row, *further) for row in xs])


class InPyTorch:
    """PyTorch's operators."""

    cond = staticmethod(torch.cond)
    while_loop = staticmethod(while_loop)
    scan = staticmethod(scan)
    map = staticmethod(mapped)


class Layered(torch.nn.Module):
    """A module with a parameter, which computes a function of an argument with operators."""

    def __init__(self, function: Callable[..., Any], operators: Any = InPyTorch) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(WEIGHT.clone())
        self.function, self.operators = function, operators

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x, self.weight, self.operators)


def run(program: Program, module: torch.nn.Module, x: torch.Tensor) -> dict[str, Any]:
    return dict(program.run({**program.module_weights(module), "arg:0": x.numpy()}))


def branch(x: torch.Tensor, weight: torch.Tensor, ops: Any) -> Any:
    return ops.cond(
        x.sum() > 0, lambda x: F.gelu(x @ weight), lambda x: x - 1, (x,)
    )


def branch_of_closures(x: torch.Tensor, weight: torch.Tensor, ops: Any) -> Any:
    y = (x * 2)[1:]
    y.add_(1)

    def true() -> dict[str, torch.Tensor]:
        z = torch.zeros_like(y)
        z[0] = 3
        return {"a": y @ weight + z, "b": weight}

    found = ops.cond(x.sum() > 0, true, lambda: {"a": y.sin(), "b": weight * 2})
    return found["a"].sum() + found["b"] * y.mean()


def nested(x: torch.Tensor, weight: torch.Tensor, ops: Any) -> Any:
    def outer(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        return ops.cond(
            y[0, 0] > 0.5, lambda x: F.gelu(x * weight + y), lambda x: x * y, (x,)
        )

    return ops.cond(x.sum() > 0, outer, lambda x: x @ weight, (x,))


def loop(x: torch.Tensor, weight: torch.Tensor, ops: Any) -> Any:
    count, y = ops.while_loop(
        lambda n, y: (n < 5) & (y.norm() < 40),
        lambda n, y: (n + 1, F.gelu(y @ weight) + y),
        (torch.zeros((), dtype=torch.int64), x),
    )
    return count, y


def recurrence(x: torch.Tensor, weight: torch.Tensor, ops: Any) -> Any:
    def step(carry: Any, row: torch.Tensor) -> Any:
        h, count = carry
        h = torch.tanh(h @ weight + row) * 1.1
        return (h, count + 1), F.gelu(h) * count

    carry = (x.new_zeros(4), torch.ones((), dtype=torch.int64))
    (h, count), ys = ops.scan(step, carry, x, reverse=True)
    return ys.sum(1) * h + count


def mapped_rows(x: torch.Tensor, weight: torch.Tensor, ops: Any) -> Any:
    return ops.map(lambda row, y: F.gelu(row * weight) + y, x, x)


def branch_in_scan(x: torch.Tensor, weight: torch.Tensor, ops: Any) -> Any:
    def step(h: torch.Tensor, row: torch.Tensor) -> Any:
        h = ops.cond(
            row[0] > 0, lambda h: torch.tanh(h @ weight), lambda h: F.gelu(h + row), (h,)
        )
        return h, h * row

    h, ys = ops.scan(step, x[0] * 1.5, x)
    return h + ys


SMOOTH = [branch, branch_of_closures, nested, recurrence, mapped_rows, branch_in_scan]
INPUTS = {
    "positive": torch.linspace(-1, 2, 16).reshape(4, 4).sin(),
    "negative": -torch.linspace(-1, 2, 16).reshape(4, 4).sin(),
}


@pytest.mark.parametrize("sign", INPUTS)
@pytest.mark.parametrize("function", [*SMOOTH, loop])
def test_numbers_of_pytorch(function: Callable[..., Any], sign: str) -> None:
    module, x = Layered(function), INPUTS[sign]
    with torch.no_grad():
        expected = torch.utils._pytree.tree_leaves(Layered(function, InPython)(x))
    results = run(composites.export(module, (x,)), module, x)
    for number, tensor in enumerate(expected):
        result = results[f"out:{number}"]
        np.testing.assert_allclose(result, tensor.numpy(), rtol=1e-5, atol=1e-5)
        assert str(result.dtype) == str(tensor.numpy().dtype)


class Loss(torch.nn.Module):
    """A weighted sum of the results of a module, and of gradients of its own."""

    def __init__(self, module: torch.nn.Module, twice: bool = False) -> None:
        super().__init__()
        self.module, self.twice = module, twice

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.twice:
            x = x.detach().requires_grad_()
        y = self.module(x)
        loss = (y * torch.linspace(0.5, 2, y.numel(), device=y.device).reshape(y.shape)).sum()
        if self.twice:
            (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
            loss = loss + gradient.sin().sum()
        return loss


@pytest.mark.parametrize("sign", INPUTS)
@pytest.mark.parametrize("function", SMOOTH)
def test_gradients_of_pytorch(function: Callable[..., Any], sign: str) -> None:
    check_gradients(function, INPUTS[sign], twice=False)


@pytest.mark.parametrize("function", [nested, recurrence, branch_in_scan])
def test_gradients_of_gradients(function: Callable[..., Any]) -> None:
    check_gradients(function, INPUTS["positive"], twice=True)


def check_gradients(function: Callable[..., Any], x: torch.Tensor, twice: bool) -> None:
    module = Loss(Layered(function), twice)
    results = run(composites.export(module, (x,), train=True), module, x)
    reference = Loss(Layered(function, InPython), twice)
    (weight,) = reference.parameters()
    loss = reference(x)
    (gradient,) = torch.autograd.grad(loss + 0 * weight.sum(), [weight])
    expected = {"loss": loss.detach(), "grad:module.weight": gradient}
    assert results.keys() == expected.keys()
    for name, tensor in expected.items():
        np.testing.assert_allclose(results[name], tensor.numpy(), rtol=2e-5, atol=2e-5)
