"""Alternatives to an entry's decomposition: the choice for a call, and its computation.

This code does not run for a call whose computation is in the cache.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from composites import torch_internals
from composites.contracts.model import OUTPUT_MASK
from composites.errors import LoweringError, UnsupportedCallError
from composites.functions import find_function
from composites.registry.alternatives import backward_parameters
from composites.registry.model import STOCK, Composite, Decomposition, Kernel
from lowering.dispatch.call import CallSpec
from lowering.dispatch.decomposition import keeps_stock_bits, lower_function, require_tensors
from lowering.dispatch.statistics import EntryStatistics, written_operands
from lowering.frontends.protocols import Frontend, TracedFunction

log = logging.getLogger("composites")


@dataclass(frozen=True, slots=True)
class Alternatives:
    """The alternatives of one entry that were chosen."""

    entry: Composite
    chosen: tuple[Kernel, ...]
    statistics: EntryStatistics

    def candidates(self, spec: CallSpec, *, shared: bool) -> Iterator[Kernel]:
        """Yield the chosen kernels whose conditions hold for a call, in their order.

        Args:
            shared: True if several devices share the graph.

        Raises:
            LoweringError: a condition cannot be evaluated for the call.
        """
        chosen = [kernel for kernel in self.chosen if shared or not kernel.is_for_shared]
        if not chosen:
            return
        described = spec.described()
        for kernel in chosen:
            owner = f"{kernel.location}: {self.entry.qualified}: {kernel.name}"
            try:
                with torch_internals.for_all_sizes():
                    unmet = described.unmet(kernel.when, owner)
            except UnsupportedCallError as error:
                unmet = f"{owner}: {error}"
            if unmet is None:
                yield kernel
            else:
                self.decline(kernel, unmet, spec.operands)

    def decline(self, alternative: Kernel, reason: str, operands: Sequence[Any]) -> None:
        """Record that a call uses another decomposition, and the reason."""
        if alternative.is_automatic:
            return  # nobody chose it
        if self.statistics.decline(alternative.name, reason):
            log.info(
                "%s=%s does not take %s: %s",
                self.entry.qualified, alternative.name, written_operands(operands), reason,
            )  # fmt: skip

    def take(self, alternative: Kernel | None, *, backward: bool = False) -> None:
        """Note which decomposition a computation has."""
        if all(kernel.is_automatic for kernel in self.chosen):
            return
        name = STOCK
        if alternative is not None and alternative.is_automatic:
            if backward:
                return  # as the derived backward of a call that has no alternative
        elif alternative is not None and (backward or alternative.forward):
            name = alternative.name
        name = f"{name}, backward" if backward else name
        taken = self.statistics.decompositions
        taken[name] = taken.get(name, 0) + 1


# ---- the computation of an alternative ----


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


def has_stock_bits(entry: Composite, alternative: Kernel) -> bool:
    """Return whether an alternative must be bitwise identical to stock."""
    return alternative.keeps_bits and keeps_stock_bits(entry)


def bind_forward(
    entry: Composite, decomposition: Decomposition, spec: CallSpec, *, saved: bool
) -> Callable[..., list[Any]]:
    """An alternative's decomposition as a function of the operands.

    Args:
        saved: True if the function also returns the further results of `saves`.
    """
    assert decomposition.target is not None
    function = find_function(decomposition.target)
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
    changed: Composite,
    frontend: Frontend,
    function: Callable[..., Sequence[Any]],
    operands: Sequence[Any],
    autocast: Any = None,
    *,
    as_stock: bool,
) -> TracedFunction:
    """Trace a function of the operands that runs an alternative.

    Args:
        changed: the entry with the alternative; see `as_entry`.
        as_stock: see `has_stock_bits`.

    Raises:
        LoweringError: the alternative failed, or draws random numbers.
        UnsupportedCallError: the alternative leaves the call to another decomposition.
    """
    if changed.decomposition.kind == "jax":
        return lower_function(changed, frontend, function, operands)

    def run_on_tensors(*tensors: Any) -> Any:
        with torch.no_grad():
            results = function(*tensors)
        require_tensors(results)
        return [result.detach() for result in results]

    lowered = lower_function(
        changed, frontend, run_on_tensors, operands, autocast=autocast, as_stock=as_stock
    )
    if lowered.draws:
        raise LoweringError(
            f"{changed.location}: {changed.qualified}: {changed.decomposition} draws other random"
            " numbers than the stock decomposition; exclude such calls in its `when`"
        )
    return lowered


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
