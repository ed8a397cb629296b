"""What README.md says of the mistakes of torch_xla 2.9: those that composites keep, and others.

A test fails when stock torch_xla does as PyTorch does on the CPU; then the README has to change.
"""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from composites_testing.environment import full_level
from composites_testing.processes import Finished

import composites

SameBits = Callable[[torch.Tensor, torch.Tensor], bool]
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
    assert leaf.grad is not None
    return leaf.grad.cpu()


@pytest.mark.parametrize("name", RESULTS)
def test_results_that_are_as_wrong_as_stock(name: str, same_bits: SameBits) -> None:
    function, x = RESULTS[name]
    stock = on_xla(function, x)
    with composites.enabled("all"):
        ours = on_xla(function, x)
    assert same_bits(ours, stock)
    right = function(x)
    assert stock.shape != right.shape or not torch.allclose(stock, right, atol=1e-3)


FROM_5_TO_9 = """
import torch, torch_xla
import composites

x = torch.arange(25.0).sin().reshape(1, 1, 5, 5)

def resized(device):
    given = x.to(device)
    return torch.nn.functional.interpolate(given, size=9, mode="bilinear").cpu()

stock = resized("xla")
with composites.enabled("all"):
    assert torch.equal(resized("xla"), stock)
assert (stock - resized("cpu")).abs().max() > 1
print("as wrong as stock")
"""


@pytest.mark.exhaustive
def test_bilinear_from_5_to_9(python: Callable[..., Finished]) -> None:
    """XLA:CPU compiles it wrongly where it optimizes, so only there."""
    done = python(FROM_5_TO_9, **full_level())
    assert done.stdout == "as wrong as stock\n", done.stderr


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_that_are_as_wrong_as_stock(name: str, same_bits: SameBits) -> None:
    function, x = GRADIENTS[name]
    stock = gradient(function, x.to("xla"))
    with composites.enabled("all"):
        ours = gradient(function, x.to("xla"))
    assert same_bits(ours, stock)
    assert not torch.allclose(stock, gradient(function, x), atol=1e-3)


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
