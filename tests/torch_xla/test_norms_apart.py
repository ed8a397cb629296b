"""Norms of graphs that several devices share: one device has the lowering of stock.

The values are those that test_builtin_alternatives.py verifies, as of all alternatives; where
devices share a graph, tests/export/test_shardings.py and tests/benchmarks have them.
"""

import pytest
import torch
import torch.nn.functional as F
from composites_testing.tensors import hlo_text

import composites
from composites.errors import UnsupportedCallError
from composites.operators import norms


def test_gradients_of_statistics_are_left_to_the_derived_backward() -> None:
    x, w, grad = (torch.randn(size) for size in ((4, 6), (6,), (4, 6)))
    _, mean, reciprocal = norms.layer_norm_apart(x, [6], w, None, 1e-5)
    for first, second, third in ((grad, mean, None), (None, None, mean)):
        with pytest.raises(UnsupportedCallError, match="the statistics have gradients"):
            norms.layer_norm_backward_apart(first, second, third, x, w, mean, reciprocal, [6])


def test_one_device_has_the_lowering_of_stock() -> None:
    x = torch.randn(4, 6, 5, device="xla").requires_grad_()
    for call in (
        lambda: F.layer_norm(x, (5,)),
        lambda: F.group_norm(x, 2),
        lambda: F.instance_norm(x),
    ):
        with composites.enabled("layer_norm", "group_norm", "instance_norm"):
            (gradient,) = torch.autograd.grad(call().square().sum(), x)
        assert "batch-norm-training" in hlo_text(gradient)
        assert "batch-norm-grad" in hlo_text(gradient)
