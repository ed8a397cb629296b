"""Operators that write the results of another operator to an argument: in place, or with `out=`.

An entry that is caught at the backend needs nothing for them, since functionalization turns them
into the operator that returns a new tensor. Above functionalization, where autograd's key is, they
are operators of their own. A call of one becomes the composite, whose result is then written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from composites import torch_internals
from composites.errors import DeclinedError
from composites.registry.operators import Variant
from lowering.frontends.protocols import Kernel


def written_into(variant: Variant, kernel: Kernel, otherwise: Kernel) -> Kernel:
    """A kernel of `variant`, which takes the dispatch keys as its first argument.

    Args:
        kernel: computes the results as new tensors. It raises DeclinedError for the calls that it
            does not claim.
        otherwise: the stock kernel of the variant.
    """
    if not variant.out:
        lists = variant.operator.arguments[0].is_list
        return _in_place_in_lists(kernel, otherwise) if lists else _in_place(kernel, otherwise)
    return _with_out(variant.out, kernel, otherwise)


def _in_place(kernel: Kernel, otherwise: Kernel) -> Kernel:
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
                value.clone() if _is_part(value, base) else value for value in operands
            )
        try:
            result = kernel(keys, *operands, **keywords)
        except DeclinedError:
            return otherwise(keys, target, *arguments, **keywords)
        if not _can_hold(target, result):
            return otherwise(keys, target, *arguments, **keywords)
        if result.requires_grad and torch_internals.base_of(target) is target:
            return _Written.apply(target, result)  # type: ignore[no-untyped-call]
        if differentiates:
            return target.copy_(result)
        torch_internals.assign(target, result)
        return target

    return called


def _in_place_in_lists(kernel: Kernel, otherwise: Kernel) -> Kernel:
    """For operators such as `aten::_foreach_add_.List`, which write to each tensor of a list."""

    def called(keys: Any, targets: Sequence[torch.Tensor], *arguments: Any, **keywords: Any) -> Any:
        differentiates = torch.is_grad_enabled() and any(
            t.requires_grad for t in tensors_in((targets, *arguments, *keywords.values()))
        )
        # Autograd's own kernel knows how each tensor of a list gets its history.
        if differentiates or torch_internals.share_memory(targets):
            return otherwise(keys, targets, *arguments, **keywords)
        try:
            results = kernel(keys, targets, *arguments, **keywords)
        except DeclinedError:
            return otherwise(keys, targets, *arguments, **keywords)
        if not all(map(_can_hold, targets, results)):
            return otherwise(keys, targets, *arguments, **keywords)
        torch_internals.assign_all(targets, results)
        return None

    return called


def _with_out(out: Sequence[str], kernel: Kernel, otherwise: Kernel) -> Kernel:
    def called(keys: Any, *arguments: Any, **keywords: Any) -> Any:
        targets = tuple(keywords[name] for name in out)
        inputs = {name: value for name, value in keywords.items() if name not in out}
        differentiates = torch.is_grad_enabled() and any(
            t.requires_grad for t in tensors_in((*arguments, *keywords.values()))
        )
        if differentiates or torch_internals.share_memory(targets):
            # The stock kernel refuses the former, and writes one after the other.
            return otherwise(keys, *arguments, **keywords)
        try:
            returned = kernel(keys, *arguments, **inputs)
        except DeclinedError:
            return otherwise(keys, *arguments, **keywords)
        results = returned if isinstance(returned, tuple | list) else (returned,)
        if not all(map(_can_hold, targets, results)):  # the stock kernel resizes, or refuses it
            return otherwise(keys, *arguments, **keywords)
        torch_internals.assign_all(targets, results)
        return targets if len(targets) > 1 else targets[0]

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
        with torch_internals.version_kept(target):  # `mark_dirty` raises it
            return target.copy_(result)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[None, torch.Tensor]:
        return None, grad.to(ctx.dtype)


def _is_part(value: Any, base: torch.Tensor) -> bool:
    return isinstance(value, torch.Tensor) and torch_internals.base_of(value) is base


def _can_hold(target: torch.Tensor, result: torch.Tensor) -> bool:
    return target.shape == result.shape and torch.can_cast(result.dtype, target.dtype)


def tensors_in(values: Iterable[Any]) -> list[torch.Tensor]:
    """The tensors among arguments, and in lists of them."""
    flat = (v for value in values for v in (value if isinstance(value, list | tuple) else (value,)))
    return [value for value in flat if isinstance(value, torch.Tensor)]
