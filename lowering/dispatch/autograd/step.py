"""One call of a composite between its forward and its backward: saved tensors, and gradients.

The backward is a composite too. It is derived, with the gradient of the forward's decomposition as
its decomposition (`backward: derive`), or it is a separate entry. If it cannot be a composite, the
gradients are those of the stock lowering.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from composites import attribute_types, torch_internals
from composites.errors import LoweringError
from composites.intermediates import Handler, handled
from composites.registry.model import Decomposition, Kernel
from lowering import interrupts
from lowering.dispatch.alternatives import (
    as_entry,
    backward_of,
    forward_of,
    has_stock_bits,
    lower_alternative,
)
from lowering.dispatch.autograd.computation import Computation
from lowering.dispatch.autograd.definition import (
    Definition,
    Operands,
    local_name,
    refuse_unsaved,
    result_name,
)
from lowering.dispatch.autograd.gradients import gradients_of, replacement
from lowering.dispatch.backend import Lowered, lower_composite
from lowering.dispatch.call import CallSpec
from lowering.dispatch.computations import NotNowError, remember
from lowering.dispatch.decomposition import (
    jax_frontend,
    jax_function,
    lower_function,
    lower_jax_function,
)
from lowering.dispatch.differentiable import PLAIN, Gradients, TensorMeta
from lowering.dispatch.operand_lists import Groups, regrouped
from lowering.dispatch.reads import Key
from lowering.dispatch.saving import saved_intermediates
from lowering.dispatch.statistics import Fallback, written_operands
from lowering.emission.types import TensorType
from lowering.frontends.protocols import EmittedComposite, Frontend, Seed, TracedFunction

Pull = Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]
"""From a forward's operands and the gradients of its results to those of the operands."""
Replacing = Callable[[Mapping[str, Any]], Handler]
"""From values by name to what puts them in the places of those that a decomposition names."""


@dataclass(frozen=True, slots=True)
class Step:
    """A call, without the tensors that autograd saves; see `TypedCall`."""

    definition: Definition
    spec: CallSpec
    """Without tensors."""
    reads: Key
    """What the function read from outside."""
    computation: Computation
    seed: Seed | None
    types: tuple[TensorMeta | None, ...]
    """Shape and dtype of each operand."""
    autocast: torch.dtype | None

    @property
    def result_types(self) -> Sequence[TensorMeta]:
        """See `TypedCall`."""
        return self.computation.types

    def forward(self, operands: Operands) -> Sequence[torch.Tensor]:
        """See `Differentiable`."""
        return self.computation.insert(self.definition, operands, self.seed)

    def backward(self, grads: Operands, kept: Operands, output_mask: Sequence[bool]) -> Gradients:
        """See `Differentiable`."""
        computation = self.computation
        found = dict(zip(computation.kept, kept, strict=True))
        count = len(self.types)
        results = count + computation.results
        last = results + len(self.definition.entry.saved)
        taken = computation.taken
        backward = _Backward(
            step=self,
            grads=grads,
            wanted=tuple(output_mask),
            operands=[found.get(n) for n in range(count)],
            results=[found.get(n) for n in range(count, results)],
            extra=[found.get(n) for n in range(results, last)],
            saved=[found[n] for n in taken],
            places=tuple(taken.index(n) if n in taken else None for n in range(count)),
        )
        return backward.gradients()

    def run(self, *operands: torch.Tensor | None) -> Any:
        """Run the composite's meaning.

        Raises:
            LoweringError: the function would read other values from outside than it did.
        """
        self.definition.check_reads(self.spec.key, self.reads)
        return self.definition.run(self.spec, self.autocast, *operands)


@dataclass(frozen=True, slots=True)
class _Backward:
    """The backward of a step: gradients of its results, and the tensors that autograd saved."""

    step: Step
    grads: Operands
    wanted: tuple[bool, ...]
    operands: Operands
    results: Operands
    extra: Operands
    saved: Operands
    """The operands of the derived backward that follow the gradients."""
    places: tuple[int | None, ...]
    """For each operand of the forward, its position in `saved`."""

    def gradients(self) -> Gradients:
        """The gradients of the call's operands; None where no gradient is needed."""
        definition = self.step.definition
        explicit = definition.backward
        if torch.is_grad_enabled():
            return self._stock("the backward is differentiated too (`create_graph=True`)")
        if torch_internals.is_transformed():
            return self._stock("it is inside a transform of torch.func")
        grads = [grad for grad in self.grads if grad is not None]
        if any(map(torch_internals.is_batched, grads)):
            return self._stock("the gradients are batched (`is_grads_batched=True`)")
        if not all(type(grad) in PLAIN for grad in grads):
            return self._stock("a gradient is a subclass of Tensor")
        if explicit is None and not definition.entry.derives:
            return self._stock("the entry has no backward")
        mode = definition.watching_mode()
        if mode is not None and self._refusal_of_stock(mode) is None:
            return self._stock(mode)
        with nullcontext() if mode is None else torch_internals.without_modes():
            return self._as_composite()

    def _as_composite(self) -> Gradients:
        """The gradients as the composite of the backward; those of stock if that declines."""
        definition = self.step.definition
        explicit = definition.backward
        if explicit is None:
            return self._derived()
        groups = self.step.computation.groups
        listed = explicit.entry.gradients
        one_list = (
            groups is not None
            and len(listed) == 1
            and groups[definition.entry.operands.index(listed[0])] is not None
        )
        results = explicit(self._names(), one_list=one_list)
        if results is None:  # the hook of the backward has counted the call
            return self._stock(None)
        by_name = dict(zip(listed, results, strict=True))
        found = [by_name.get(name) for name in definition.entry.operands]
        if groups is not None:
            found = _of_lists(found, groups, definition)
        return [g if wanted else None for g, wanted in zip(found, self.wanted, strict=True)]

    def _names(self) -> dict[str, Any]:
        """The values that an explicit backward can take, by name."""
        entry = self.step.definition.entry
        found = dict(self.step.spec.arguments)
        groups = self.step.computation.groups
        values = self.operands if groups is None else regrouped(self.operands, groups)
        operands = zip(entry.operands, values, strict=True)
        extra = zip(entry.saved, self.extra, strict=True)
        found |= {local_name(name): tensor for name, tensor in operands}
        found |= {result_name(n): t for n, t in enumerate(self.results)}
        found |= {name: tensor for (name, _), tensor in extra}
        found |= {f"grad_output_{n}" if n else "grad_output": g for n, g in enumerate(self.grads)}
        return found

    def _stock(self, reason: str | None) -> Gradients:
        """Compute the gradients with the stock lowering, so that they can be differentiated again.

        `reason` says why; None if the call has been counted.

        The value of an operand that was not saved does not affect the first gradient. It does not
        affect the second one either.
        """
        definition, types = self.step.definition, self.step.types
        refusal = self._refusal_of_stock(reason or "the backward does not claim this call")
        if refusal is not None:
            raise LoweringError(refusal)
        if reason is not None:
            operands = written_operands(self.grads)
            definition.statistics.fallback(f"its backward: {reason}", operands).count_call()
        device = next(grad.device for grad in self.grads if grad is not None)
        inputs = [
            _blank(type_, device, wanted) if tensor is None else tensor
            for tensor, type_, wanted in zip(self.operands, types, self.wanted, strict=True)
        ]
        random_numbers = definition.frontend.random_numbers

        def run(*operands: torch.Tensor | None) -> Any:
            state = random_numbers.random_state(self.step.seed) if random_numbers else nullcontext()
            # Only the gradients are calls of the program.
            with state, torch_internals.without_modes():
                return self.step.run(*operands)

        with definition.lowering.raised(), interrupts.allowed():
            return gradients_of(
                run,
                inputs,
                self.wanted,
                self.grads,
                create_graph=torch.is_grad_enabled(),
            )

    def _refusal_of_stock(self, reason: str) -> str | None:
        """Why the gradients cannot be those of the stock lowering, which `reason` asks for."""
        definition, types = self.step.definition, self.step.types
        entry = definition.entry
        if entry.decomposition.kind == "jax" and entry.adapt is not None:
            return (
                f"{entry.location}: {entry.qualified}: {reason}; PyTorch would have to"
                f" differentiate {entry.decomposition}, and no operator of PyTorch has the"
                " arguments of a JAX function behind `adapt`; write the decomposition in PyTorch"
                " for such programs"
            )
        lost = dict.fromkeys(
            name
            for name, tensor, type_ in zip(
                self.step.computation.names, self.operands, types, strict=True
            )
            if tensor is None and type_ is not None
        )
        if lost and definition.backward is not None:
            return (
                f"{entry.location}: {entry.qualified}: this gradient is computed by the stock"
                f" operator, which reads {', '.join(lost)}; add it to `saves`"
            )
        return None

    def _derived(self) -> Gradients:
        step, definition = self.step, self.step.definition
        given = [grad for grad in self.grads if grad is not None]
        present = tuple(grad is not None for grad in self.grads)
        types = tuple((grad.shape, grad.dtype) for grad in given)
        autocast = definition.frontend.tracing.autocast_dtype()  # usually off in a backward
        autocasts = (step.autocast, autocast)
        read = (step.spec.key, step.reads)
        key = (read, present, types, self.wanted, autocasts, definition.frontend.graph.target)
        operands = [*given, *self.saved]
        lowered = definition.derived.get(key)
        if lowered is None:
            try:
                with definition.lowering.raised():
                    lowered = self._lower(operands)
            except NotNowError as error:
                error.fallback.count_call()
                return self._stock(None)
            remember(definition.derived, key, lowered)
        if isinstance(lowered, Fallback):
            lowered.count_call()
            return self._stock(None)
        symbol = f"{definition.symbol}_backward"
        count = len(lowered.results)
        inserted = definition.insert(symbol, operands, step.seed, lowered.handle, results=count)
        results = iter(inserted)
        return [next(results) if wanted else None for wanted in self.wanted]

    def _lower(self, operands: Operands) -> Any:
        """The derived backward as a computation, or a Fallback."""
        step, definition = self.step, self.step.definition
        entry, frontend = definition.entry, definition.frontend
        wanted, places = self.wanted, self.places
        count = len(operands) - len(self.saved)
        present = [grad is not None for grad in self.grads]
        computation = step.computation
        first = len(step.types) + computation.results

        # What was not saved is given too, to see that nothing reads it.
        unsaved = [
            _meta(type_) for place, type_ in zip(places, step.types, strict=True) if place is None
        ]

        def of_tensors(*tensors: torch.Tensor | None) -> list[torch.Tensor]:
            def pull(inputs: Operands, grads: Operands) -> Gradients:
                return gradients_of(step.run, inputs, wanted, grads, create_graph=False)

            return backward(pull, replacement, *tensors)

        def of_arrays(*arrays: Any) -> list[Any]:
            jax, run = jax_frontend(), jax_function(entry, step.spec)

            def pull(inputs: Sequence[Any], grads: Sequence[Any]) -> list[Any]:
                return jax.gradients_of(run, inputs, wanted, grads)  # type: ignore[no-any-return]

            return backward(pull, jax.replacement, *arrays)

        def backward(pull: Pull, replacing: Replacing, *values: Any) -> list[Any]:
            grads = iter(values[:count])
            saved, others = values[count : len(operands)], iter(values[len(operands) :])
            inputs = [saved[place] if place is not None else next(others) for place in places]
            with handled(replacing(saved_intermediates(entry, computation.taken, saved, first))):
                found = pull(inputs, [next(grads) if there else None for there in present])
            return [grad for grad in found if grad is not None]

        def attributes() -> Mapping[str, str | None]:
            return {
                **step.computation.attributes,
                "output_mask": attribute_types.boolean_list(wanted),
            }

        lowered = self._alternative(operands, attributes)
        if lowered is not None:
            return lowered

        def trace(given: Operands, zeros: Sequence[Any] = ()) -> TracedFunction:
            if entry.decomposition.kind == "jax":
                return lower_jax_function(
                    entry, frontend, lambda *arrays: of_arrays(*arrays, *zeros), given
                )
            autocast = frontend.tracing.autocast_dtype()

            def with_zeros(*tensors: torch.Tensor | None) -> list[torch.Tensor]:
                device = next(t.device for t in tensors if t is not None)
                return of_tensors(
                    *tensors,
                    *(t if t is None else torch.zeros_like(t, device=device) for t in zeros),
                )

            return lower_function(entry, frontend, with_zeros, given, autocast=autocast)

        def decompose() -> TracedFunction:
            whole = trace([*operands, *unsaved])
            extra = sum(tensor is not None for tensor in unsaved)
            if not extra:
                return whole
            reads = whole.reads()
            self._refuse_unsaved(reads[len(reads) - extra :])
            shorter = whole.without_last(extra)
            if shorter is not None:
                return shorter
            # They are parameters, and no result depends on them: any values will do.
            if entry.decomposition.kind == "jax":
                types = [None if t is None else frontend.tensors.type_of(t) for t in unsaved]
                jax = jax_frontend()
                return trace(operands, [None if t is None else jax.blank(t) for t in types])
            return trace(operands, unsaved)

        return lower_composite(
            entry,
            definition.statistics,
            entry.backward_name,
            frontend,
            operands,
            attributes,
            decompose,
        )

    def _refuse_unsaved(self, is_read: Iterable[bool]) -> None:
        """Check that the derived backward reads no operand that was not saved.

        Args:
            is_read: for each present operand that was not saved.
        """
        rest = iter(is_read)
        step = self.step
        pairs = zip(self.places, step.types, strict=True)
        unsaved = [place is None and type_ is not None for place, type_ in pairs]
        refuse_unsaved(
            step.definition.entry,
            step.computation.names,
            [not lost for lost in unsaved],
            [lost and next(rest) for lost in unsaved],
        )

    def _alternative(
        self, operands: Operands, attributes: Callable[[], Mapping[str, str | None]]
    ) -> Any:
        """The derived backward as the alternative that took the call computes it; None if it does
        not."""
        step, definition = self.step, self.step.definition
        entry, frontend = definition.entry, definition.frontend
        alternative = step.computation.alternative
        if alternative is None:
            return None
        function = self._backward_of(alternative)
        if isinstance(function, str):
            definition.alternatives.decline(alternative, function, operands)
            definition.alternatives.take(None, backward=True)
            return None
        decomposition = alternative.backward or alternative.forward
        assert decomposition is not None
        changed = as_entry(entry, alternative, decomposition)
        lowered = lower_composite(
            changed,
            definition.statistics,
            entry.backward_name,
            frontend,
            operands,
            attributes,
            lambda: lower_alternative(
                changed,
                frontend,
                function,
                operands,
                frontend.tracing.autocast_dtype(),
                as_stock=has_stock_bits(entry, alternative),
            ),
            lambda composite: self._check_gradients(alternative, composite),
        )
        if isinstance(lowered, Lowered):
            definition.alternatives.take(alternative, backward=True)
            return lowered
        definition.alternatives.decline(alternative, lowered.reason, operands)
        definition.alternatives.take(None, backward=True)
        return None

    def _backward_of(self, alternative: Kernel) -> Callable[..., list[Any]] | str:
        """An alternative's backward as a function of the derived backward's operands, or why it
        cannot have these gradients."""
        step, entry = self.step, self.step.definition.entry
        if alternative.derives:
            assert alternative.forward is not None
            return self._derived_from(alternative.forward)
        if alternative.backward is None:
            return "it has no backward, so the backward is that of the entry"
        asked = {name for name, w in zip(step.computation.names, self.wanted, strict=True) if w}
        unknown = sorted(asked - set(alternative.gradients))
        if unknown:
            return f"it has no gradient of {', '.join(unknown)}"
        mask = [name in asked for name in alternative.gradients]
        run = backward_of(alternative.backward, alternative.gradients, self._values, mask)

        def gradients(*tensors: Any) -> list[Any]:
            by_name = dict(zip(alternative.gradients, run(*tensors), strict=True))
            found = [by_name.get(name) for name in entry.operands]
            if step.computation.groups is not None:
                found = _of_lists(found, step.computation.groups, step.definition)
            return [g for g, wanted in zip(found, self.wanted, strict=True) if wanted]

        return gradients

    def _derived_from(self, decomposition: Decomposition) -> Callable[..., list[Any]]:
        """The gradient of an alternative's decomposition."""
        step, wanted = self.step, self.wanted
        entry, frontend = step.definition.entry, step.definition.frontend
        forward = forward_of(entry, decomposition, step.spec, saved=False)
        present = [grad is not None for grad in self.grads]
        count = sum(present)

        def gradients(*tensors: Any) -> list[Any]:
            grads, saved = iter(tensors[:count]), tensors[count:]
            given = [next(grads) if there else None for there in present]

            def operand(place: int | None, type_: TensorMeta | None) -> Any:
                if place is not None:
                    return saved[place]
                if decomposition.kind == "jax":
                    found = _type_of(type_, frontend)
                    return None if found is None else jax_frontend().blank(found)
                device = next(t.device for t in tensors if t is not None)
                return _blank(type_, device, wanted=False)

            inputs = [operand(*pair) for pair in zip(self.places, step.types, strict=True)]
            if decomposition.kind == "jax":
                return jax_frontend().gradients_of(forward, inputs, wanted, given)  # type: ignore[no-any-return]
            with frontend.tracing.autocast(step.autocast):
                found = gradients_of(forward, inputs, wanted, given, create_graph=False)
            return [gradient for gradient in found if gradient is not None]

        return gradients

    def _values(self, *tensors: Any) -> dict[str, Any]:
        """The values that an alternative's backward can take, by name."""
        step, entry = self.step, self.step.definition.entry
        computation = step.computation
        count = sum(grad is not None for grad in self.grads)
        grads, found = (
            iter(tensors[:count]),
            dict(zip(computation.taken, tensors[count:], strict=True)),
        )
        given = [next(grads) if grad is not None else None for grad in self.grads]
        operands: Sequence[Any] = [found.get(n) for n in range(len(step.types))]
        if computation.groups is not None:
            operands = list(regrouped(operands, computation.groups))
        values = dict(step.spec.arguments)
        values |= {local_name(n): t for n, t in zip(entry.operands, operands, strict=True)}
        first = len(step.types)
        values |= {result_name(n): found.get(first + n) for n in range(computation.results)}
        first += computation.results
        values |= {name: found.get(first + n) for n, (name, _) in enumerate(entry.saved)}
        values |= {f"grad_output_{n}" if n else "grad_output": g for n, g in enumerate(given)}
        return values

    def _check_gradients(self, alternative: Kernel, composite: EmittedComposite) -> None:
        """Check the types of what an alternative's backward returns.

        Raises:
            LoweringError: a gradient has another type than its operand.
        """
        definition = self.step.definition
        due = [
            _type_of(type_, definition.frontend)
            for type_, wanted in zip(self.step.types, self.wanted, strict=True)
            if wanted
        ]
        if due != list(composite.results):
            entry = definition.entry
            raise LoweringError(
                f"{alternative.location}: {entry.qualified}: {alternative.name}: the backward gives"
                f" {', '.join(map(str, composite.results))} as gradients of operands of"
                f" {', '.join(map(str, due))}"
            )


def _of_lists(found: Sequence[Any], groups: Groups, definition: Definition) -> list[Any]:
    """The gradient of each tensor, of an explicit backward that returns lists for lists.

    Raises:
        LoweringError: it returns something else for a list.
    """
    flat: list[Any] = []
    for name, gradient, group in zip(definition.entry.operands, found, groups, strict=True):
        if group is None:
            flat.append(gradient)
        elif gradient is None:
            flat.extend([None] * group[1])
        elif isinstance(gradient, list | tuple) and len(gradient) == group[1]:
            flat.extend(gradient)
        else:
            backward = definition.backward
            assert backward is not None
            given = f"{len(gradient)}" if isinstance(gradient, list | tuple) else "one tensor"
            raise LoweringError(
                f"{backward.entry.location}: {backward.entry.qualified}: {name} is a list of"
                f" {group[1]} tensors, and {backward.entry.decomposition} returns {given} for it;"
                " return a list with a gradient for each"
            )
    return flat


def _type_of(type_: TensorMeta | None, frontend: Frontend) -> TensorType | None:
    described = _meta(type_)
    return None if described is None else frontend.tensors.type_of(described)


def _meta(type_: TensorMeta | None) -> torch.Tensor | None:
    return None if type_ is None else torch.empty(type_[0], dtype=type_[1], device="meta")


def _blank(type_: TensorMeta | None, device: torch.device, wanted: bool) -> torch.Tensor | None:
    if type_ is None:
        return None
    return torch.zeros(type_[0], dtype=type_[1], device=device, requires_grad=wanted)
