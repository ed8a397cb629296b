"""torch_xla's eager mode runs each operator at once; decompositions are still only traced."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch_xla.experimental.eager import eager_mode_context

import composites


def test_composites_run_in_eager_mode() -> None:
    x = torch.linspace(-2, 2, 12).reshape(3, 4)

    def step() -> torch.Tensor:
        leaf = x.to("xla").requires_grad_()
        F.silu(F.gelu(leaf)).sum().backward()
        return leaf.grad.cpu()

    with eager_mode_context(True):
        stock = step()
        with composites.enabled("all"):
            assert torch.equal(step(), stock)
