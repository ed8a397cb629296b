"""torch_xla's eager mode runs each operator at once; decompositions are still only traced."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from composites_testing.tensors import gradient_of
from torch_xla.experimental.eager import eager_mode_context

import composites


def gradient(function: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    leaf = torch.linspace(-2, 2, 12).reshape(3, 4).to("xla").requires_grad_()
    function(leaf).sum().backward()
    return gradient_of(leaf).cpu()


def test_composites_run_in_eager_mode() -> None:
    with eager_mode_context(True):
        stock = gradient(F.gelu)
        with composites.enabled("all"):
            assert torch.equal(gradient(F.gelu), stock)


def test_an_implicit_autograd_operator_runs_as_one_in_eager_mode() -> None:
    # Stock eager mode rounds between the eleven operators of silu_backward; as a composite they
    # are compiled together, so the last bit may differ.
    with eager_mode_context(True):
        stock = gradient(F.silu)
        with composites.enabled("all"):
            torch.testing.assert_close(gradient(F.silu), stock)
