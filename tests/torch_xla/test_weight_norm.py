"""weight_norm stays in the graph, which stock torch_xla leaves for both directions."""

from typing import Any

import pytest
import torch
import torch_xla.debug.metrics as metrics
from composites_testing.selection import variants
from composites_testing.tensors import values
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

import composites

MODULES: dict[str, tuple[Any, tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(4, 3), (2, 4)),
    "convolution": (lambda: nn.Conv2d(2, 3, 3), (1, 2, 5, 5)),
}


def run(name: str, dtype: torch.dtype, device: str) -> list[torch.Tensor]:
    torch.manual_seed(0)
    make, shape = MODULES[name]
    module = weight_norm(make()).to(dtype).to(device)
    x = values(*shape, dtype=dtype, device=device)
    result = module(x)
    found = torch.autograd.grad(result.float().square().sum(), list(module.parameters()))
    return [result.detach().cpu(), *(gradient.cpu() for gradient in found)]


def fallbacks() -> list[str]:
    return [name for name in metrics.counter_names() if name.startswith("aten::_weight_norm")]


@variants("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", MODULES)
def test_modules(name: str, dtype: torch.dtype) -> None:
    metrics.clear_counters()
    run(name, dtype, "xla")
    assert fallbacks()
    metrics.clear_counters()
    with composites.enabled("weight_norm"):
        before = composites.stats().entries["ptxla.weight_norm"].calls
        ours = run(name, dtype, "xla")
        assert composites.stats().entries["ptxla.weight_norm"].calls == before + 1
    assert not fallbacks()
    tolerance = 1e-5 if dtype == torch.float32 else 5e-2
    torch.testing.assert_close(ours, run(name, dtype, "cpu"), rtol=tolerance, atol=tolerance)


def test_other_dimensions_keep_the_lowering_that_stock_has() -> None:
    with composites.enabled("weight_norm"):
        before = composites.stats().entries["ptxla.weight_norm"].calls
        torch._weight_norm(values(4, 3, 5), values(1, 3, 1), 1)
        assert composites.stats().entries["ptxla.weight_norm"].calls == before
    assert not fallbacks()
