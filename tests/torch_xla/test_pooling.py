"""Max pooling: forward and gradient have stock's bits, and are a composite each."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torch_xla.core.xla_model as xm

import composites

FORMS: list[dict[str, Any]] = [
    {},
    {"stride": 2, "padding": 1},
    {"stride": 2, "ceil_mode": True},
    {"stride": (1, 2), "padding": (1, 0)},
]


def run(dtype: torch.dtype, form: dict[str, Any]) -> tuple[list[torch.Tensor], list[str]]:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 9, 9, dtype=dtype).to("xla").requires_grad_()
    result = F.max_pool2d(x, 3, **form)
    (gradient,) = torch.autograd.grad(result.sin().sum(), [x])
    text = xm.get_stablehlo([result, gradient])
    found = re.findall(r'stablehlo.composite "ptxla\.([^"]+)"', text)
    return [result.detach().cpu(), gradient.cpu()], sorted(found)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_max_pool2d(dtype: torch.dtype, form: dict[str, Any]) -> None:
    stock, none = run(dtype, form)
    with composites.enabled("max_pool2d"):
        ours, found = run(dtype, form)
    assert (none, found) == ([], ["max_pool2d", "max_pool2d_backward"])
    for expected, actual in zip(stock, ours, strict=True):
        assert torch.equal(expected, actual)
