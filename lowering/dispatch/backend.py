"""The functions that hooks at the backend's dispatch key call: from operands to a computation.

A generated hook looks up a call by everything that its composite depends on. Only calls with a new
key are lowered. The result is a kernel for all calls with this key, so the hot path is one
dictionary lookup and one insertion into the graph.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from composites.errors import LoweringError, UnsupportedCallError
from composites.functions import find_function
from composites.registry.model import Composite
from composites.registry.operators import overload
from lowering.dispatch.alternatives import bind_forward, lower_alternative
from lowering.dispatch.call import CallForm, CallSpec, ungrouped
from lowering.dispatch.computations import computed, remember
from lowering.dispatch.decomposition import (
    Insertable,
    lower_composite,
    lower_function,
    require_tensors,
)
from lowering.dispatch.definition import ActiveEntry
from lowering.dispatch.statistics import Fallback
from lowering.emission.types import TensorType
from lowering.frontends.protocols import EmittedComposite, Frontend, Kernel, TracedFunction


@dataclass(slots=True)
class EntryLowering:
    """One entry that is caught at the backend, for one set of active entries."""

    definition: ActiveEntry
    otherwise: Kernel
    """Takes the calls that the entry does not claim."""
    computations: dict[Hashable, Any]
    """Computations, or Fallbacks, by the key of a call. Other lowerings of the entry may have made
    them."""
    kernels: dict[Hashable, Kernel] = field(default_factory=dict)
    """By a call's key: functions of its tensors that insert the computation into the graph or fall
    back. Operands come first, in the composite's order."""

    @property
    def form(self) -> CallForm:
        return self.definition.form

    def lower(self, spec: CallSpec) -> Kernel:
        """The kernel for calls with a new key; see `kernels`.

        Raises:
            LoweringError: the entry's own decomposition failed, or its results differ in type from
                those of the operator.
        """
        computations, key, lowering = self.computations, spec.key, self.definition.lowering
        if lowering.active and key not in computations:  # inside the entry's own decomposition
            return spec.kept().bound(self.otherwise)
        make = partial(self._new_computation, spec)
        computation = computed(computations, key, lowering, make)
        if not isinstance(computation, Fallback):
            kernel = self._inserting(computation, spec)
        else:
            kernel = self._falling_back(computation, spec)
            if key not in computations:  # the next call is tried again
                return kernel
        remember(self.kernels, key, kernel)
        return kernel

    def _inserting(self, computation: Any, spec: CallSpec) -> Kernel:
        """A kernel that inserts a computation, and returns results as the operator does."""
        definition, otherwise, kept = self.definition, self.otherwise, spec.kept()
        entry, operator, symbol = definition.entry, definition.form.operator, definition.symbol
        statistics, graph = definition.statistics, definition.frontend.graph
        is_one = len(entry.exposed(operator.results)) == 1 and not operator.returns_list
        insert = graph.insert if is_one else graph.insert_several
        is_plain = len(spec.operands) == len(operator.tensors) and all(
            map(torch.is_tensor, spec.operands)
        )

        def insert_one(*tensors: Any) -> Any:  # the hot path of most calls
            statistics.caught += 1
            return insert(symbol, tensors, computation)[0]

        def insert_any(*tensors: Any) -> Any:
            statistics.caught += 1
            flat = tensors if is_plain else ungrouped(tensors)[0]
            results = insert(symbol, [t for t in flat if t is not None], computation)
            if entry.results:
                results = entry.completed(results, partial(kept.call, otherwise, *tensors))
            if operator.returns_list:
                return list(results)
            return tuple(results) if len(results) > 1 else results[0]

        return insert_one if is_one and is_plain and not entry.results else insert_any

    def _falling_back(self, fallback: Fallback, spec: CallSpec) -> Kernel:
        """A kernel that counts a call of the program and leaves it to `otherwise`."""
        graph, otherwise = self.definition.frontend.graph, spec.kept().bound(self.otherwise)

        def fall_back(*tensors: Any) -> Any:
            # The stock lowering of a call that another entry claims calls operators itself.
            if not graph.is_decomposition:
                fallback.count_call()
            return otherwise(*tensors)

        return fall_back

    def _new_computation(self, spec: CallSpec) -> Any:
        """The composite of a call, or a Fallback."""
        spec = spec.flat()
        definition, entry, operands = self.definition, self.definition.entry, spec.operands
        unmet = spec.unmet()
        if unmet is not None:
            return definition.statistics.fallback(unmet, operands)
        check, attributes = partial(self._check, spec), spec.attributes
        for alternative in definition.candidates(spec):
            forward = alternative.forward
            if forward is None:
                continue
            function, name = bind_forward(forward, spec, saved=False), entry.composite_name
            lowered = lower_alternative(
                definition, alternative, forward, function, name, operands, attributes, check=check
            )
            if isinstance(lowered, Insertable):
                definition.take(alternative)
                return lowered.handle
            definition.decline(alternative, lowered.reason, operands)
        lowered = lower_composite(
            definition,
            entry,
            entry.composite_name,
            operands,
            attributes,
            partial(self._decomposed, spec),
            None if entry.decomposition.kind == "native" else check,
        )
        if isinstance(lowered, Fallback):
            return lowered
        definition.take(None)
        if lowered.draws:  # a kernel at the backend has no random state to pass on
            return definition.statistics.fallback(
                "its decomposition draws random numbers, which an entry can only do with"
                " `backward: derive`",
                operands,
            )
        return lowered.handle

    def _decomposed(self, spec: CallSpec) -> TracedFunction:
        """The entry's own decomposition of a call; see `lower_function`."""
        definition, entry = self.definition, self.definition.entry
        decomposition, target = entry.decomposition, entry.decomposition.target
        function = definition.native if target is None else find_function(target)

        def results(*values: Any) -> Any:
            returned = spec.call(function, *values)
            if decomposition.kind == "torch":
                require_tensors(returned if isinstance(returned, list | tuple) else (returned,))
            return entry.exposed(returned)

        # A stock kernel above PyTorch's decompositions dispatches again.
        whole = target is not None or definition.form.operator.implicit_autograd
        frontend, operands = definition.frontend, spec.operands
        return lower_function(entry, frontend, results, operands, whole_dispatch=whole)

    def _check(self, spec: CallSpec, entry: Composite, composite: EmittedComposite) -> None:
        """Check that a decomposition returns results of the operator's types."""
        due = _meta_results(spec, self.definition.frontend)
        if due is None:
            return
        expected, actual = tuple(entry.exposed(due)), composite.results
        # A result that the output mask leaves out can have any type.
        if len(expected) == len(actual):
            expected = tuple(e or a for e, a in zip(expected, actual, strict=True))
        if expected != actual:
            raise LoweringError(
                f"{entry.location}: {entry.qualified}: decomposition"
                f" {entry.decomposition} gives {_written(actual)}, but"
                f" {self.form.operator.qualified} gives {_written(expected)}"
            )


def _meta_results(spec: CallSpec, frontend: Frontend) -> tuple[TensorType | None, ...] | None:
    """The operator's result types for a call, from its meta kernel; None if this fails.

    The type of a result is None if the call's output mask leaves it out.
    """
    shapes = [None if t is None else torch.empty_like(t, device="meta") for t in spec.operands]
    try:
        results = spec.call(overload(spec.form.operator.qualified), *shapes)
    except Exception:  # no meta kernel, other arguments of it (mm.dtype in 2.9), or a bad call
        return None
    results = results if isinstance(results, list | tuple) else (results,)
    try:
        return tuple(None if r is None else frontend.tensors.tensor_type(r) for r in results)
    except UnsupportedCallError:  # the frontend cannot represent a result
        return None


def _written(types: Sequence[TensorType | None]) -> str:
    return ", ".join(map(str, types)) or "nothing"
