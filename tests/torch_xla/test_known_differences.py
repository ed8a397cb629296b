"""Mistakes of torch_xla 2.9 that the pages name: composites keep some and repair others.

A test fails when stock torch_xla does as PyTorch does on the CPU; then the README has to change.
"""

from collections.abc import Callable
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from composites_testing.tensors import gradient_of

import composites
from lowering.verification.bits import same_bits

Function = Callable[[torch.Tensor], torch.Tensor]


def image(size: int) -> torch.Tensor:
    return torch.arange(float(size * size)).sin().reshape(1, 1, size, size)


def running_variance(x: torch.Tensor) -> torch.Tensor:
    mean, variance = torch.zeros(4, device=x.device), torch.zeros(4, device=x.device)
    F.batch_norm(x, mean, variance, training=True)
    return variance


RESULTS: dict[str, tuple[Function, torch.Tensor]] = {
    "avg_pool2d divides by what it counts": (
        lambda x: F.avg_pool2d(x, 3, padding=1, count_include_pad=False, divisor_override=2),
        image(6),
    ),
    "log_sigmoid of -inf": (F.logsigmoid, torch.tensor([-torch.inf])),
    "the running variance averages the biased one": (running_variance, torch.eye(5, 4)),
    "nearest goes by the sizes": (
        lambda x: F.interpolate(x, scale_factor=1.7, mode="nearest"), image(6),
    ),
    "bilinear goes by the sizes": (
        lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear"), image(6),
    ),
}  # fmt: skip

GRADIENTS: dict[str, tuple[Function, torch.Tensor]] = {
    "elu of negative numbers": (F.elu, torch.tensor([-2.0])),
    "hardtanh at its limits": (F.hardtanh, torch.tensor([-1.0, 1.0])),
    "relu6 at its limits": (F.relu6, torch.tensor([0.0, 6.0])),
}


def on_xla(function: Function, x: torch.Tensor) -> torch.Tensor:
    return function(x.to("xla")).cpu()


def gradient(function: Function, x: torch.Tensor) -> torch.Tensor:
    leaf = x.detach().requires_grad_()
    function(leaf).sum().backward()
    return gradient_of(leaf).cpu()


CASES: dict[str, tuple[Function, Function, torch.Tensor]] = {
    **{name: (partial(on_xla, function), function, x) for name, (function, x) in RESULTS.items()},
    **{
        name: (partial(on_xla, partial(gradient, function)), partial(gradient, function), x)
        for name, (function, x) in GRADIENTS.items()
    },
}
"""A function on the device, the function on the CPU, and its argument."""


@pytest.mark.parametrize("name", CASES)
def test_what_is_as_wrong_as_stock(name: str) -> None:
    on_device, on_cpu, x = CASES[name]
    stock = on_device(x)
    with composites.enabled("all"):
        ours = on_device(x)
    assert same_bits(ours, stock)
    right = on_cpu(x)
    assert stock.shape != right.shape or not torch.allclose(stock, right, atol=1e-3)


def elu_gradient(alpha: float) -> torch.Tensor:
    return gradient(lambda x: F.elu(x, alpha), torch.linspace(-3, -1, 7, device="xla"))


def average(divisor: int) -> torch.Tensor:
    return on_xla(lambda x: F.avg_pool2d(x, 3, divisor_override=divisor), image(7))


@pytest.mark.parametrize("function", [elu_gradient, average])
def test_other_numbers_are_another_graph(function: Callable[[int], torch.Tensor]) -> None:
    """Stock torch_xla takes the graph that it has for the same call with another number."""
    assert torch.equal(function(1), function(2))
    with composites.enabled("all"):
        assert not torch.equal(function(1), function(2))
