"""Gradients of operators that take functions."""

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

import torch
from torch import Tensor

from composites.torch_internals import pytree
from lowering.frontends.fx.autocast import autocast, autocast_dtype
from lowering.frontends.fx.regions import Replacing

Pull = Callable[[Sequence[Tensor], Sequence[Tensor], Sequence[Tensor]], Sequence[Tensor | None]]
"""A function of inputs, outputs and the gradients of the outputs that returns the gradients of the
inputs, or None for inputs that need no gradient."""


def differentiable(
    emit: Callable[[], Sequence[Tensor]], pull: Pull, inputs: Sequence[Tensor]
) -> list[Tensor]:
    """The results of a node, with gradients if an input needs one.

    Args:
        emit: adds the node and returns its results.
        inputs: the tensors from which the results are computed.
    """
    if not (torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs)):
        return list(emit())
    results: tuple[Tensor, ...] = _Differentiable.apply(emit, pull, *inputs)  # type: ignore[no-untyped-call]
    return list(results)


def is_differentiable(tensor: Tensor) -> bool:
    """Return whether tensors of the dtype of `tensor` have gradients."""
    return tensor.is_floating_point() or tensor.is_complex()


class _Differentiable(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, emit: Any, pull: Pull, *inputs: Tensor) -> Any:
        results = emit()
        ctx.mark_non_differentiable(*(r for r in results if not is_differentiable(r)))
        ctx.save_for_backward(*inputs, *results)
        ctx.count, ctx.pull = len(inputs), pull
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        saved = ctx.saved_tensors
        return None, None, *ctx.pull(saved[: ctx.count], saved[ctx.count :], grads)


def gradient_function(
    function: Callable[..., Any],
    *,
    operands: int,
    read: Sequence[Tensor],
    needed: Sequence[bool],
) -> Callable[..., list[Tensor]]:
    """The function that computes gradients of `function`.

    It takes the operands, the tensors that are read, and the gradients of the results, and returns
    the gradients of the operands and tensors that need one.

    Args:
        operands: the number of operands.
        read: the tensors that `function` reads besides its operands.
        needed: for each operand and each tensor that is read, True if its gradient is needed.
    """
    dtype = autocast_dtype()

    def gradients(*values: Tensor) -> list[Tensor]:
        again = torch.is_grad_enabled()
        inputs, grads = values[: len(needed)], values[len(needed) :]
        leaves = [_leaf(tensor, needs) for tensor, needs in zip(inputs, needed, strict=True)]
        inner = {id(tensor): leaf for tensor, leaf in zip(read, leaves[operands:], strict=True)}
        with (
            torch.set_grad_enabled(True),
            autocast(dtype),
            Replacing(inner) as replacing,
        ):
            returned = pytree.tree_leaves(function(*leaves[:operands]))
            results = [replacing.replacement(r) for r in returned if r is not None]
        pairs = [
            (result, grad)
            for result, grad in zip(results, grads, strict=True)
            if result.requires_grad
        ]
        asked = list(compress(leaves, needed))
        if not (pairs and asked):
            return [torch.zeros_like(leaf) for leaf in asked]
        outputs, grad_outputs = zip(*pairs, strict=True)
        return list(
            torch.autograd.grad(
                outputs, asked, grad_outputs, create_graph=again, materialize_grads=True
            )
        )

    return gradients


def _leaf(tensor: Tensor, needed: bool) -> Tensor:
    """A tensor that requires a gradient if `needed`."""
    if needed and tensor.requires_grad:
        return tensor
    return tensor.detach().requires_grad_(needed)
