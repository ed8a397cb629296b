"""The forward of a composite as a computation, for calls with equal keys."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from composites import torch_internals
from composites.errors import LoweringError, UnsupportedCallError
from composites.intermediates import recorded
from composites.registry.model import Composite, Kernel
from composites.torch_internals import TreeSpec, pytree
from lowering.dispatch.alternatives import as_entry, forward_of, has_stock_bits, lower_alternative
from lowering.dispatch.autograd.definition import Definition, Operands, local_name, result_name
from lowering.dispatch.autograd.gradients import leaves_of
from lowering.dispatch.backend import Lowered, lower_composite
from lowering.dispatch.decomposition import Call, lower_function, lower_jax, require_tensors
from lowering.dispatch.differentiable import TensorMeta
from lowering.dispatch.operand_lists import Groups, grouped, operand_names, ungrouped
from lowering.dispatch.saving import further_values
from lowering.dispatch.statistics import Fallback
from lowering.frontends.protocols import Frontend, Seed, TracedFunction

Attributes = Callable[[], Mapping[str, str | None]]


@dataclass(frozen=True, slots=True)
class Arguments:
    """One call, as a generated hook passes it on."""

    key: tuple[Hashable, ...]
    """Everything that the composite depends on."""
    operands: Sequence[Any]
    """In the composite's order; None for an absent operand. A hook passes lists of tensors as they
    are, and `flat` takes them apart."""
    call: Call
    """Calls a function of the same signature with other tensors as operands. It must not hold a
    tensor."""
    otherwise: Callable[[], Any]
    """Runs the stock operator or function."""
    unmet: Callable[[], str | None] = lambda: None
    """Returns the condition of the entry that the call does not meet; None if it meets all."""
    attributes: Attributes = dict
    """Returns the attributes as MLIR text."""
    values: Callable[[], Mapping[str, Any]] = dict
    """Returns the arguments that are not operands, by name, for an explicit backward."""
    groups: Groups | None = None
    """What was a list among the operands; None if nothing was."""

    @property
    def is_flat(self) -> bool:
        return not any(isinstance(operand, list | tuple) for operand in self.operands)

    def flat(self) -> Arguments:
        """The same call, with each tensor of a list as an operand."""
        operands, groups = ungrouped(self.operands)
        return replace(self, operands=operands, call=grouped(groups, self.call), groups=groups)

    def names(self, entry: Composite) -> tuple[str, ...]:
        """The name of each operand. All tensors of a list have the list's."""
        return _names_of_operands(entry, self.groups)


@dataclass(frozen=True, slots=True)
class Computation:
    """A composite for calls with equal keys."""

    handle: Any
    results: int
    """Number of results of the function itself. The results after these are saved for the
    backward."""
    types: tuple[TensorMeta, ...]
    """Shape and dtype of all results."""
    names: tuple[str, ...]
    """The name of each operand. All tensors of a list have the list's."""
    groups: Groups | None
    """What was a list among the operands; None if nothing was."""
    structure: TreeSpec
    """How the function returns its results."""
    same_as: tuple[int, ...]
    """For each result, the first one that is the same tensor. The composite has both."""
    differentiable: tuple[bool, ...]
    """For each result, whether it has a gradient in the stock lowering."""
    reached: tuple[frozenset[int], ...]
    """For each result, the operands that get a gradient from its gradient. An operand that no
    result depends on has none, as in PyTorch, where zeros would make an optimizer change it."""
    taken: tuple[int, ...]
    """What the derived backward takes: positions among operands, results and additional saved
    tensors."""
    kept: tuple[int, ...]
    """The positions of the tensors that autograd saves."""
    draws: int
    """How often it advances the random number generator. If it does, its last operand is the
    state."""
    attributes: Mapping[str, str | None]
    """MLIR text by name. The derived backward has the same attributes."""
    alternative: Kernel | None = None
    """The alternative that has taken the calls; None if the decomposition is that of the entry."""

    def reaches(self, grads: Sequence[Any]) -> list[bool]:
        """For each operand, whether it has a gradient.

        Args:
            grads: the gradients of the results; None for one that is not there.
        """
        pairs = zip(grads, self.reached, strict=True)
        reached = frozenset().union(*(of for grad, of in pairs if grad is not None))
        return [number in reached for number in range(len(self.names))]

    def insert(
        self, definition: Definition, operands: Operands, seed: Seed | None
    ) -> Sequence[torch.Tensor]:
        """All results for these operands."""
        return definition.insert(
            definition.symbol, operands, seed, self.handle, results=len(self.types)
        )


def can_differentiate(
    definition: Definition, names: Sequence[str], wanted: tuple[bool, ...]
) -> bool:
    """Whether the composite has a backward for these operands."""
    entry = definition.entry
    if definition.backward is None:
        return entry.derives
    known = definition.backward.entry.gradients
    return all(n in known for n, w in zip(names, wanted, strict=True) if w)


def lower_forward(
    definition: Definition, arguments: Arguments, wanted: tuple[bool, ...] | None
) -> Computation | Fallback:
    """The computation of a call's forward, or why it falls back to the stock lowering.

    Args:
        wanted: for each operand, whether it needs a gradient; None if no operand does.
    """
    stock = _lower_stock(definition, arguments, wanted)
    if not definition.chosen or isinstance(stock, Fallback):
        return stock
    alternatives = definition.alternatives
    shared = definition.frontend.graph.is_shared
    asked = alternatives.asked(arguments.call, arguments.operands, shared=shared)
    for alternative in asked:
        # Whether a number is drawn must not depend on the decomposition.
        changed = (
            "the entry's decomposition draws random numbers"
            if stock.draws
            else _with_alternative(stock, alternative, definition, arguments, wanted)
        )
        if isinstance(changed, Computation):
            alternatives.take(alternative)
            return changed
        asked.decline(changed)
    alternatives.take(None)
    return stock


def _with_alternative(
    stock: Computation,
    alternative: Kernel,
    definition: Definition,
    arguments: Arguments,
    wanted: tuple[bool, ...] | None,
) -> Computation | str:
    """A computation with an alternative in the place of the entry's decomposition, or why it cannot
    have it. All else is that of `stock`.

    Raises:
        LoweringError: the alternative failed, or its results have other types than those of the
            entry's decomposition.
    """
    entry, frontend = definition.entry, definition.frontend
    # Where no backward follows, what has stock's bits saves nothing, and costs as much as stock's.
    saves_nothing = alternative.is_automatic and not alternative.is_for_shared and wanted is None
    if alternative.forward is None or saves_nothing:
        return replace(stock, alternative=alternative)
    autocast = frontend.tracing.autocast_dtype()
    decomposition, operands = alternative.forward, arguments.operands
    changed = as_entry(entry, alternative, decomposition)
    function = forward_of(entry, decomposition, arguments.call, saved=wanted is not None)
    lowered = lower_composite(
        changed,
        definition.statistics,
        entry.composite_name,
        frontend,
        operands,
        arguments.attributes,
        lambda: lower_alternative(
            changed,
            frontend,
            function,
            operands,
            autocast,
            as_stock=has_stock_bits(entry, alternative),
        ),
    )
    if isinstance(lowered, Fallback):
        return lowered.reason
    definition.statistics.lowered -= 1  # one call had two computations made
    types = _metas(lowered, frontend)
    if types != stock.types:
        given, due = _written(types), _written(stock.types)
        if autocast is not None:  # JAX knows nothing of it
            return f"under autocast it gives {given}, and not {due}"
        raise LoweringError(
            f"{alternative.location}: {entry.qualified}: {alternative.name}: {decomposition} gives"
            f" {given}, but the entry's decomposition gives {due}"
        )
    return replace(stock, handle=lowered.handle, alternative=alternative)


def _metas(lowered: Lowered, frontend: Frontend) -> tuple[TensorMeta, ...]:
    return tuple(map(frontend.tensors.described, lowered.results))


def _written(types: Sequence[TensorMeta]) -> str:
    return ", ".join(f"{str(dtype).removeprefix('torch.')}{list(shape)}" for shape, dtype in types)


def _lower_stock(
    definition: Definition, arguments: Arguments, wanted: tuple[bool, ...] | None
) -> Computation | Fallback:
    """The computation with the entry's own decomposition."""
    entry, frontend = definition.entry, definition.frontend
    traced: list[tuple[TreeSpec, list[int], tuple[bool, ...], tuple[frozenset[int], ...]]] = []
    autocast = frontend.tracing.autocast_dtype()
    enabled = torch.is_grad_enabled()

    def forward(*tensors: torch.Tensor | None) -> list[torch.Tensor]:
        for tensor, leaf in zip(tensors, wanted or (), strict=False):
            if tensor is not None:
                tensor.requires_grad_(leaf)
        with torch.set_grad_enabled(enabled), recorded() as named:
            outputs = definition.run(arguments.call, autocast, *tensors)
        flat, spec = pytree.tree_flatten(outputs)
        require_tensors(flat)
        if any(_shares_memory(result, tensors) for result in flat):
            raise UnsupportedCallError("a result is an operand, or a view of one")
        identities = [id(result) for result in flat]
        same_as = [identities.index(identity) for identity in identities]
        differentiable = tuple(result.requires_grad for result in flat)
        reached = tuple(leaves_of(result, tensors) for result in flat)
        traced[:] = [(spec, same_as, differentiable, reached)]
        extra = further_values(entry, arguments.call, tensors, named) if wanted else []
        require_tensors(extra)
        return [result.detach() for result in (*flat, *extra)]

    def decompose() -> TracedFunction:
        if entry.decomposition.kind == "jax":
            saved = wanted is not None
            return lower_jax(entry, frontend, arguments.call, arguments.operands, saved=saved)
        return lower_function(entry, frontend, forward, arguments.operands, autocast=autocast)

    lowered = lower_composite(
        entry,
        definition.statistics,
        entry.composite_name,
        frontend,
        arguments.operands,
        arguments.attributes,
        decompose,
    )
    if isinstance(lowered, Fallback):
        return lowered
    types = _metas(lowered, frontend)
    if traced:
        spec, same_as, differentiable, reached = traced[0]
    else:  # autograd does not see a JAX function
        has_backward = definition.backward is not None or entry.derives
        count = len(types) - (len(entry.saved) if wanted else 0)
        spec, same_as = _structure(count), list(range(count))
        differentiable = tuple(
            has_backward and wanted is not None and (dtype.is_floating_point or dtype.is_complex)
            for _, dtype in types[:count]
        )
    if not traced or definition.backward is not None:  # whose gradients are those that it lists
        reached = (frozenset(range(len(arguments.operands))),) * len(differentiable)
    results = spec.num_leaves
    names = arguments.names(entry)
    return Computation(
        handle=lowered.handle,
        results=results,
        types=types,
        names=names,
        groups=arguments.groups,
        structure=spec,
        same_as=tuple(same_as),
        differentiable=differentiable,
        reached=reached,
        taken=_taken(definition, names, results),
        kept=_kept(definition, names, results),
        draws=lowered.draws,
        attributes=lowered.attributes,
    )


def _names_of_operands(entry: Composite, groups: Groups | None) -> tuple[str, ...]:
    return entry.operands if groups is None else operand_names(entry.operands, groups)


def _names(entry: Composite, operands: Sequence[str], results: int) -> list[str]:
    """Operands, results and additional saved tensors, by their names in `saves`."""
    return [
        *operands,
        *(result_name(n, ".") for n in range(results)),
        *(name for name, _ in entry.saved),
    ]


def _taken(definition: Definition, operands: Sequence[str], results: int) -> tuple[int, ...]:
    """The positions of what `saves` lists; all operands if there is no `saves`."""
    entry = definition.entry
    saves = entry.operands if entry.saves is None else entry.saves
    return tuple(n for n, name in enumerate(_names(entry, operands, results)) if name in saves)


def _kept(definition: Definition, operands: Sequence[str], results: int) -> tuple[int, ...]:
    """The positions of what autograd saves: `_taken`, and the parameters of an explicit
    backward."""
    named = () if definition.backward is None else definition.backward.parameters
    taken = _taken(definition, operands, results)
    names = enumerate(_names(definition.entry, operands, results))
    return tuple(n for n, name in names if n in taken or local_name(name) in named)


def _shares_memory(result: torch.Tensor, operands: Operands) -> bool:
    whole = torch_internals.base_of(result)
    return any(whole is operand for operand in operands)


def _structure(results: int) -> TreeSpec:
    """How an operator returns this number of results."""
    return pytree.tree_structure(0 if results == 1 else (0,) * results)
