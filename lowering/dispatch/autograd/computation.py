"""The forward of a composite as a computation, for calls with equal keys."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from composites import torch_internals
from composites.errors import LoweringError, UnsupportedCallError
from composites.intermediates import recorded
from composites.registry.model import Kernel
from composites.torch_internals import TreeSpec, pytree
from lowering.codegen.paths import local
from lowering.dispatch.alternatives import bind_forward, lower_alternative
from lowering.dispatch.autograd.gradients import reached_inputs
from lowering.dispatch.backward import further_values, names_of_values, taken_by_derived
from lowering.dispatch.call import CallSpec
from lowering.dispatch.decomposition import (
    jax_function,
    lower_composite,
    lower_function,
    require_tensors,
)
from lowering.dispatch.definition import ActiveEntry, Operands, TensorMeta, meta_tensor
from lowering.dispatch.statistics import Fallback, written_operands
from lowering.frontends.protocols import Seed


@dataclass(frozen=True, slots=True)
class Computation:
    """A composite for calls with equal keys."""

    handle: Any
    results: int
    """Number of results of the function itself. The results after these are saved for the
    backward."""
    types: tuple[TensorMeta, ...]
    """Shape and dtype of all results."""
    operands: int
    structure: TreeSpec | None
    """The structure in which the function returns its results; None for a tuple of them, which
    needs no tree."""
    same_as: tuple[int, ...]
    """For each result, the first result that is the same tensor. The composite has both."""
    differentiable: tuple[bool, ...]
    """For each result, True if it has a gradient in the stock lowering."""
    reached: tuple[frozenset[int], ...]
    """For each result, the operands that get a gradient from its gradient. An operand that no
    result depends on has none, as in PyTorch, where zeros would make an optimizer change it."""
    taken: tuple[int, ...]
    """The positions of the values that the derived backward takes; see `taken_by_derived`."""
    kept: tuple[int, ...]
    """The positions of the tensors that autograd saves."""
    draws: int
    """The number of times that the forward advances the random number generator."""
    takes_state: bool
    """True if the generator's state is the last operand."""
    attributes: Mapping[str, str | None]
    """MLIR text by name. The derived backward has the same attributes."""
    alternative: Kernel | None = None
    """The alternative that has taken the calls; None if the decomposition is that of the entry."""

    def reaches(self, grads: Sequence[Any]) -> list[bool]:
        """For each operand, True if it has a gradient.

        Args:
            grads: the gradients of the results; None for an absent gradient.
        """
        pairs = zip(grads, self.reached, strict=True)
        reached = frozenset().union(*(operands for grad, operands in pairs if grad is not None))
        return [number in reached for number in range(self.operands)]

    def returned(self, results: Sequence[torch.Tensor]) -> Any:
        """The results in the structure in which the function returns them."""
        identical = [results[number] for number in self.same_as]
        if self.structure is None:
            return tuple(identical)
        return pytree.tree_unflatten(identical, self.structure)

    def insert(
        self, definition: ActiveEntry, operands: Operands, seed: Seed | None
    ) -> Sequence[torch.Tensor]:
        """Insert the computation for `operands`, and return all its results."""
        state, count = seed if self.takes_state else None, len(self.types)
        return definition.insert(definition.symbol, operands, state, self.handle, results=count)


def can_differentiate(
    definition: ActiveEntry, names: Sequence[str], needed: tuple[bool, ...]
) -> bool:
    """Return whether the composite has a backward for these operands."""
    entry = definition.entry
    if definition.backward is None:
        return entry.derives
    listed = definition.backward.entry.gradients
    return all(name in listed for name, is_needed in zip(names, needed, strict=True) if is_needed)


def lower_forward(
    definition: ActiveEntry, spec: CallSpec, needed: tuple[bool, ...] | None
) -> Computation | Fallback:
    """The computation of a call's forward, or the reason for its fallback to the stock lowering.

    Args:
        needed: for each operand, True if it needs a gradient; None if no operand does.
    """
    stock = _lower_stock(definition, spec, needed)
    if not definition.chosen or isinstance(stock, Fallback):
        return stock
    for alternative in definition.candidates(spec):
        # Random numbers must not depend on the choice of a decomposition.
        changed = (
            "the entry's decomposition draws random numbers"
            if stock.draws
            else _with_alternative(stock, alternative, definition, spec, needed)
        )
        if isinstance(changed, Computation):
            definition.take(alternative)
            return changed
        definition.decline(alternative, changed, spec.operands)
    definition.take(None)
    return stock


def _with_alternative(
    stock: Computation,
    alternative: Kernel,
    definition: ActiveEntry,
    spec: CallSpec,
    needed: tuple[bool, ...] | None,
) -> Computation | str:
    """The computation `stock` with an alternative instead of the entry's decomposition, or the
    reason why the alternative cannot be used.

    Raises:
        LoweringError: the alternative failed, or its results have other types than those of the
            entry's decomposition.
    """
    entry, frontend = definition.entry, definition.frontend
    # If no backward follows, an alternative with the stock lowering's bits has no advantage.
    saves_nothing = alternative.is_automatic and not alternative.is_for_shared and needed is None
    if alternative.forward is None or saves_nothing:
        return replace(stock, alternative=alternative)
    autocast, decomposition = frontend.tracing.autocast_dtype(), alternative.forward
    lowered = lower_alternative(
        definition,
        alternative,
        decomposition,
        bind_forward(decomposition, spec, saved=needed is not None),
        entry.composite_name,
        spec.operands,
        spec.attributes,
        autocast=autocast,
    )
    if isinstance(lowered, Fallback):
        return lowered.reason
    definition.statistics.lowered -= 1  # two computations were made for one call
    types = tuple(map(frontend.tensors.described, lowered.results))
    if types != stock.types:
        actual, due = (written_operands(map(meta_tensor, t)) for t in (types, stock.types))
        if autocast is not None:  # JAX functions do not follow autocast
            return f"under autocast it gives {actual}, and not {due}"
        raise LoweringError(
            f"{alternative.location}: {entry.qualified}: {alternative.name}: {decomposition} gives"
            f" {actual}, but the entry's decomposition gives {due}"
        )
    return replace(stock, handle=lowered.handle, alternative=alternative)


def _lower_stock(
    definition: ActiveEntry, spec: CallSpec, needed: tuple[bool, ...] | None
) -> Computation | Fallback:
    """The computation with the entry's own decomposition."""
    entry, frontend = definition.entry, definition.frontend
    traced: list[tuple[TreeSpec, list[int], tuple[bool, ...], tuple[frozenset[int], ...]]] = []
    autocast = frontend.tracing.autocast_dtype()
    enabled = torch.is_grad_enabled()

    def forward(*tensors: torch.Tensor | None) -> list[torch.Tensor]:
        for tensor, leaf in zip(tensors, needed or (), strict=False):
            if tensor is not None:
                tensor.requires_grad_(leaf)
        with torch.set_grad_enabled(enabled), recorded() as named:
            outputs = definition.run(spec, autocast, *tensors)
        flat, structure = pytree.tree_flatten(outputs)
        require_tensors(flat)
        bases = list(map(torch_internals.base_of, flat))
        if any(base is operand for base in bases for operand in tensors):
            raise UnsupportedCallError("a result is an operand, or a view of one")
        identities = [id(result) for result in flat]
        same_as = [identities.index(identity) for identity in identities]
        differentiable = tuple(result.requires_grad for result in flat)
        reached = tuple(reached_inputs(result, tensors) for result in flat)
        traced[:] = [(structure, same_as, differentiable, reached)]
        extra = further_values(spec, tensors, named) if needed else []
        require_tensors(extra)
        return [result.detach() for result in (*flat, *extra)]

    def results_of_arrays(*arrays: Any) -> list[Any]:
        import jax

        with recorded() as named:
            results = jax_function(entry, spec)(*arrays)
        extra = further_values(spec, arrays, named) if needed else []
        return [*jax.tree.leaves(results), *extra]

    lowered = lower_composite(
        definition,
        entry,
        entry.composite_name,
        spec.operands,
        spec.attributes,
        partial(
            lower_function,
            entry,
            frontend,
            results_of_arrays if entry.decomposition.kind == "jax" else forward,
            spec.operands,
            autocast=autocast,
        ),
    )
    if isinstance(lowered, Fallback):
        return lowered
    types = tuple(map(frontend.tensors.described, lowered.results))
    if traced:
        structure, same_as, differentiable, reached = traced[0]
    else:  # autograd does not see a JAX function
        has_backward = definition.backward is not None or entry.derives
        count = len(types) - (len(entry.saved) if needed else 0)
        # An operator returns `count` results in this structure.
        structure = pytree.tree_structure(0 if count == 1 else (0,) * count)
        same_as = list(range(count))
        differentiable = tuple(
            has_backward and needed is not None and (dtype.is_floating_point or dtype.is_complex)
            for _, dtype in types[:count]
        )
    if not traced or definition.backward is not None:  # an explicit backward lists its gradients
        reached = (frozenset(range(len(spec.operands))),) * len(differentiable)
    results = structure.num_leaves
    return Computation(
        handle=lowered.handle,
        operands=len(spec.operands),
        results=results,
        types=types,
        structure=None if structure == pytree.tree_structure((0,) * results) else structure,
        same_as=tuple(same_as),
        differentiable=differentiable,
        reached=reached,
        taken=taken_by_derived(spec, results),
        kept=_kept(definition, spec, results),
        draws=lowered.draws,
        takes_state=lowered.takes_state,
        attributes=lowered.attributes,
    )


def _kept(definition: ActiveEntry, spec: CallSpec, results: int) -> tuple[int, ...]:
    """The positions of the values that autograd saves: the operands of a derived backward, or the
    parameters of an explicit one."""
    named = () if definition.backward is None else definition.backward.parameters
    taken = taken_by_derived(spec, results)
    names = enumerate(names_of_values(spec, results))
    return tuple(n for n, name in names if n in taken or local(name) in named)
