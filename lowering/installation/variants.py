"""Operators that write the result of another operator to their first argument, in place.

An entry that is caught at the backend needs nothing for them, since functionalization turns them
into the operator that returns a new tensor. At autograd's key, above functionalization, they are
separate operators. A call of such an operator becomes the composite, whose result is then written.
Calls with `out=`, which autograd refuses, are left to the stock kernel.
"""

from collections.abc import Iterable
from typing import Any

import torch

from composites import torch_internals
from composites.errors import DeclinedError
from lowering.frontends.protocols import Kernel


def in_place(kernel: Kernel, otherwise: Kernel) -> Kernel:
    """A kernel of an in-place operator, which takes the dispatch keys as its first argument.

    Args:
        kernel: computes the result as a new tensor. It raises DeclinedError for the calls that it
            does not claim.
        otherwise: the stock kernel of the operator.
    """

    def called(keys: Any, target: torch.Tensor, *arguments: Any, **keywords: Any) -> Any:
        values = (target, *arguments, *keywords.values())
        differentiates = torch.is_grad_enabled() and any(
            t.requires_grad for t in tensors_in(values)
        )
        if differentiates and target.is_leaf and target.requires_grad:
            return otherwise(keys, target, *arguments, **keywords)  # the stock kernel refuses this
        operands: tuple[Any, ...] = (target, *arguments)
        if differentiates:  # the backward reads the values from before the call
            base = torch_internals.base_of(target)
            operands = tuple(
                value.clone()
                if isinstance(value, torch.Tensor) and torch_internals.base_of(value) is base
                else value
                for value in operands
            )
        try:
            result = kernel(keys, *operands, **keywords)
        except DeclinedError:
            return otherwise(keys, target, *arguments, **keywords)
        if target.shape != result.shape or not torch.can_cast(result.dtype, target.dtype):
            return otherwise(keys, target, *arguments, **keywords)
        if result.requires_grad and torch_internals.base_of(target) is target:
            return _Written.apply(target, result)  # type: ignore[no-untyped-call]
        if differentiates:
            return target.copy_(result)
        torch_internals.assign(target, result)
        return target

    return called


class _Written(torch.autograd.Function):
    """Write a result to a tensor that is not a view.

    `copy_` gives the tensor's old value a gradient of zeros, which would be added to its others.
    Autograd has no other way than `copy_` for views.
    """

    @staticmethod
    def forward(ctx: Any, target: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
        ctx.mark_dirty(target)
        ctx.dtype = result.dtype
        with torch_internals.version_kept(target):  # `mark_dirty` increments the version
            return target.copy_(result)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[None, torch.Tensor]:
        return None, grad.to(ctx.dtype)


def tensors_in(values: Iterable[Any]) -> list[torch.Tensor]:
    """The tensors among arguments and in lists among them."""
    flat = (v for value in values for v in (value if isinstance(value, list | tuple) else (value,)))
    return [value for value in flat if isinstance(value, torch.Tensor)]
