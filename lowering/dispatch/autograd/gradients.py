"""The gradients of a function of tensors, computed with autograd."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from composites import torch_internals
from composites.intermediates import Handler
from composites.torch_internals import pytree
from lowering.dispatch.definition import Gradients


def pull_gradients(
    function: Callable[..., Any],
    operands: Sequence[torch.Tensor | None],
    needed: Sequence[bool],
    grads: Sequence[torch.Tensor | None],
    *,
    create_graph: bool = False,
) -> Gradients:
    """Run a function and pull gradients of its results back to its operands.

    Args:
        function: takes the operands and returns tensors in any nesting.
        operands: None for an absent operand.
        needed: for each operand, True if its gradient is requested.
        grads: for each result, its gradient, or None if nothing depends on the result.
        create_graph: True if the gradients will be differentiated again. The operands are then used
            without detaching them.

    Returns:
        One gradient for each operand, of its shape and dtype; None if it was not requested. A
        gradient is zero if the results do not depend on the operand.
    """
    with torch_internals.untransformed(), torch.enable_grad():  # type: ignore[no-untyped-call]
        inputs = [_leaf(t, asked, create_graph) for t, asked in zip(operands, needed, strict=True)]
        results = pytree.tree_leaves(function(*inputs))
    pairs = [
        (result, grad)
        for result, grad in zip(results, grads, strict=True)
        if grad is not None and result.requires_grad
    ]
    leaves = [t for t, asked in zip(inputs, needed, strict=True) if asked and t is not None]
    if pairs:
        gradients: Sequence[torch.Tensor] = torch.autograd.grad(
            [result for result, _ in pairs],
            leaves,
            [grad for _, grad in pairs],
            create_graph=create_graph,
            materialize_grads=True,
        )
    else:
        gradients = list(map(torch.zeros_like, leaves))
    rest = iter(gradients)
    return [
        next(rest) if asked and t is not None else None
        for t, asked in zip(inputs, needed, strict=True)
    ]


def reached_inputs(result: torch.Tensor, operands: Sequence[torch.Tensor | None]) -> frozenset[int]:
    """Positions of the operands to which autograd propagates the gradient of a result."""
    reached: set[int] = set()
    seen: set[Any] = set()
    pending = [result.grad_fn]
    while pending:
        node = pending.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        reached.update(n for n, operand in enumerate(operands) if operand is variable)
        pending.extend(following for following, _ in node.next_functions)
    return frozenset(reached if result.grad_fn is not None else ())


def replacement(values: Mapping[str, torch.Tensor]) -> Handler:
    """A handler of named values, for `composites.intermediates.handled`. For names in `values`, a
    decomposition continues with these tensors, and gradients go to the values that it computed
    itself."""

    def replace(computed: torch.Tensor, name: str) -> Any:
        value = values.get(name)
        if value is None:
            return computed
        return _Replaced.apply(computed, value)  # type: ignore[no-untyped-call]

    return replace


class _Replaced(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, computed: torch.Tensor, replacement: torch.Tensor) -> torch.Tensor:
        return replacement.clone()

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return grads[0], None


def _leaf(tensor: torch.Tensor | None, needed: bool, create_graph: bool) -> torch.Tensor | None:
    if tensor is None:
        return None
    if create_graph:  # an alias, because one tensor may be used for two operands
        return tensor.view_as(tensor) if needed else tensor
    return tensor.detach().requires_grad_(needed)
