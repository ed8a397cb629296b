"""A step of a module whose result need not be a loss."""

from __future__ import annotations

from typing import Any

import torch

from composites.errors import SuggestionError
from composites.torch_internals import pytree


class Step(torch.nn.Module):
    """A module whose result is made a loss: the one that the module returns, or the sum of all."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *arguments: Any, **keywords: Any) -> torch.Tensor:
        return loss_of(self.module(*arguments, **keywords), type(self.module).__name__)


def loss_of(result: Any, owner: str) -> torch.Tensor:
    """The loss in a result, or the sum of its tensors that have gradients."""
    loss = getattr(result, "loss", None)
    if isinstance(loss, torch.Tensor) and loss.dim() == 0 and loss.requires_grad:
        return loss
    tensors = [
        leaf
        for leaf in pytree.tree_leaves(result)
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad
    ]
    if not tensors:
        raise SuggestionError(
            f"nothing that {owner} returns depends on a parameter that requires a gradient; use"
            " --forward for the forward alone"
        )
    if tensors[0].dim() == 0:
        return tensors[0]
    return sum((tensor.sum() for tensor in tensors[1:]), tensors[0].sum())
