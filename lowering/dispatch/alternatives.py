"""Alternatives to an entry's decomposition: the computation of an alternative for a call.

This code does not run for a call whose computation is in the cache.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from composites.contracts.model import OUTPUT_MASK
from composites.errors import LoweringError
from composites.functions import find_function
from composites.registry.alternatives import backward_parameters
from composites.registry.model import Composite, Decomposition, Kernel
from lowering.dispatch.call import CallSpec
from lowering.dispatch.decomposition import (
    Insertable,
    keeps_stock_bits,
    lower_composite,
    lower_function,
    require_tensors,
)
from lowering.dispatch.definition import ActiveEntry, Operands
from lowering.dispatch.statistics import Fallback
from lowering.frontends.protocols import EmittedComposite, TracedFunction


def as_entry(entry: Composite, alternative: Kernel, decomposition: Decomposition) -> Composite:
    """The entry with another decomposition. Messages name the file of the alternative."""
    # The alternative need not keep the bits of the function that the entry catches.
    return replace(
        entry,
        decomposition=decomposition,
        functions=(),
        kernels=(),
        location=alternative.location,
    )


def bind_forward(
    decomposition: Decomposition, spec: CallSpec, *, saved: bool
) -> Callable[..., list[Any]]:
    """An alternative's decomposition as a function of the operands.

    Args:
        saved: True if the function also returns the further results of `saves`.
    """
    assert decomposition.target is not None
    function, entry = find_function(decomposition.target), spec.form.entry
    count = len(entry.saved)

    def forward(*operands: Any) -> list[Any]:
        returned = spec.call(function, *operands)
        flat = list(returned) if isinstance(returned, list | tuple) else [returned]
        if len(flat) <= count:
            names = ", ".join(name for name, _ in entry.saved)
            raise TypeError(f"it returns {len(flat)} tensors; return the results, and {names}")
        split = len(flat) - count
        return [*entry.exposed(flat[:split]), *(flat[split:] if saved else ())]

    return forward


def lower_alternative(
    definition: ActiveEntry,
    alternative: Kernel,
    decomposition: Decomposition,
    function: Callable[..., Sequence[Any]],
    name: str,
    operands: Operands,
    attributes: Callable[[], Mapping[str, str | None]],
    *,
    autocast: Any = None,
    check: Callable[[Composite, EmittedComposite], None] | None = None,
) -> Insertable | Fallback:
    """The composite for a call with an alternative; see `lower_composite`.

    Args:
        decomposition: that of the alternative's forward or backward.
        function: a function of the operands that runs it.

    Raises:
        LoweringError: the alternative failed, or draws random numbers.
    """
    entry, frontend = as_entry(definition.entry, alternative, decomposition), definition.frontend
    as_stock = alternative.keeps_bits and keeps_stock_bits(definition.entry)

    def run_on_tensors(*tensors: Any) -> Any:
        with torch.no_grad():
            results = function(*tensors)
        require_tensors(results)
        return [result.detach() for result in results]

    def decompose() -> TracedFunction:
        run = function if decomposition.kind == "jax" else run_on_tensors
        lowered = lower_function(
            entry, frontend, run, operands, autocast=autocast, as_stock=as_stock
        )
        if lowered.draws:
            raise LoweringError(
                f"{entry.location}: {entry.qualified}: {decomposition} draws other random numbers"
                " than the stock decomposition; exclude such calls in its `when`"
            )
        return lowered

    return lower_composite(definition, entry, name, operands, attributes, decompose, check)


def bind_backward(
    backward: Decomposition, gradients: Sequence[str], needed: Sequence[bool]
) -> Callable[[Mapping[str, Any]], list[Any]]:
    """An alternative's backward as a function of all values that it can take, by name.

    Args:
        gradients: the operands whose gradients the backward returns.
        needed: for each of `gradients`, True if it is requested. The others are None.
    """
    target = backward.target
    assert target is not None
    function = find_function(target)
    parameters = backward_parameters(function, target)

    def run(values: Mapping[str, Any]) -> list[Any]:
        available = {**values, OUTPUT_MASK: tuple(needed)}
        returned = function(**{name: available[name] for name in parameters if name in available})
        grads = list(returned) if isinstance(returned, list | tuple) else [returned]
        if len(grads) != len(gradients):
            raise TypeError(
                f"it returns {len(grads)} gradients; return {len(gradients)}, of"
                f" {', '.join(gradients)}"
            )
        for name, gradient, is_needed in zip(gradients, grads, needed, strict=True):
            if is_needed and gradient is None:
                raise TypeError(f"it returns None for the gradient of {name}")
        return [grad if is_needed else None for grad, is_needed in zip(grads, needed, strict=True)]

    return run
