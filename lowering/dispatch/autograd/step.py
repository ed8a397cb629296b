"""One call of a composite between its forward and its backward: saved tensors, and gradients.

The backward is a composite too. It is derived, with the gradient of the forward's decomposition as
its decomposition (`backward: derive`), or it is a separate entry. If it cannot be a composite, the
gradients are those of the stock lowering.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from composites import attribute_types, torch_internals
from composites.errors import LoweringError
from composites.registry.model import Composite, Decomposition, Kernel
from composites.torch_internals import pytree
from lowering import interrupts
from lowering.dispatch.alternatives import as_entry, bind_backward, bind_forward, lower_alternative
from lowering.dispatch.autograd import gradients
from lowering.dispatch.autograd.computation import Computation
from lowering.dispatch.autograd.gradients import pull_gradients
from lowering.dispatch.backward import BackwardSpec, gradients_by_name, gradients_by_operand
from lowering.dispatch.call import CallSpec
from lowering.dispatch.computations import computed
from lowering.dispatch.decomposition import (
    Insertable,
    jax_frontend,
    jax_function,
    lower_composite,
    lower_function,
)
from lowering.dispatch.definition import (
    PLAIN,
    ActiveEntry,
    Gradients,
    Operands,
    TensorMeta,
    meta_tensor,
)
from lowering.dispatch.reads import Key
from lowering.dispatch.statistics import Fallback
from lowering.frontends.protocols import EmittedComposite, Seed, TracedFunction


@dataclass(frozen=True, slots=True)
class AutogradCall:
    """A call, without the tensors that autograd saves."""

    definition: ActiveEntry
    spec: CallSpec
    """The call without tensors."""
    reads: Key
    """The values that the function read from outside."""
    computation: Computation
    seed: Seed | None
    types: tuple[TensorMeta | None, ...]
    """Shape and dtype of each operand."""
    autocast: torch.dtype | None

    def forward(self, operands: Operands) -> Sequence[torch.Tensor]:
        """The composite's results, followed by the additional saved tensors."""
        return self.computation.insert(self.definition, operands, self.seed)

    def backward(self, grads: Operands, kept: Operands, output_mask: Sequence[bool]) -> Gradients:
        """A gradient for each operand; None where `output_mask` is false."""
        computation = self.computation
        backward = _Backward(
            self.spec,
            self.types,
            present=tuple(grad is not None for grad in grads),
            needed=tuple(output_mask),
            taken=computation.taken,
            step=self,
            grads=grads,
            kept=dict(zip(computation.kept, kept, strict=True)),
        )
        return backward.gradients()

    def run(self, *operands: torch.Tensor | None) -> Any:
        """Run the composite's meaning.

        Raises:
            LoweringError: values that the function reads from outside have changed.
        """
        self.definition.check_reads(self.spec.key, self.reads)
        return self.definition.run(self.spec, self.autocast, *operands)


@dataclass(frozen=True, slots=True)
class _Backward(BackwardSpec):
    """The backward of a step, with gradients of its results and the tensors that autograd saved."""

    step: AutogradCall
    grads: Operands
    kept: Mapping[int, torch.Tensor | None]
    """Saved tensors by position among operands, results and further results of the forward."""

    @property
    def definition(self) -> ActiveEntry:
        return self.step.definition

    @property
    def operands(self) -> Operands:
        """The operands of the forward that were saved."""
        return [self.kept.get(n) for n in range(len(self.types))]

    def gradients(self) -> Gradients:
        """The gradients of the call's operands; None where no gradient is needed."""
        definition = self.definition
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
        """The gradients as the composite of the backward; those of stock if its hook declines."""
        definition = self.definition
        explicit = definition.backward
        if explicit is None:
            return self._derived()
        returned = explicit(self.named(self.kept, self.grads))
        if returned is None:  # the hook of the backward has counted the call
            return self._stock(None)
        by_name = gradients_by_name(self.spec, returned, explicit.entry)
        pulled = gradients_by_operand(self.spec, by_name, explicit.entry)
        return [g if asked else None for g, asked in zip(pulled, self.needed, strict=True)]

    def _stock(self, reason: str | None) -> Gradients:
        """Compute the gradients with the stock lowering, so that they can be differentiated again.

        `reason` says why; None if the call has been counted.

        The value of an operand that was not saved affects neither the first gradient nor the
        second.
        """
        definition = self.definition
        refusal = self._refusal_of_stock(reason or "the backward does not claim this call")
        if refusal is not None:
            raise LoweringError(refusal)
        if reason is not None:
            definition.statistics.fallback(f"its backward: {reason}", self.grads).count_call()
        device = next(grad.device for grad in self.grads if grad is not None)
        inputs = [
            _blank(type_, device, asked) if tensor is None else tensor
            for tensor, type_, asked in zip(self.operands, self.types, self.needed, strict=True)
        ]
        random_numbers = definition.frontend.random_numbers

        def run(*operands: torch.Tensor | None) -> Any:
            # Modes of the program must see the calls of the gradients only.
            with random_numbers.random_state(self.step.seed), torch_internals.without_modes():
                return self.step.run(*operands)

        with definition.lowering.raised(), interrupts.allowed():
            return pull_gradients(
                run,
                inputs,
                self.needed,
                self.grads,
                create_graph=torch.is_grad_enabled(),
            )

    def _refusal_of_stock(self, reason: str) -> str | None:
        """The reason why the stock lowering, which `reason` requires, cannot compute gradients."""
        definition, entry = self.definition, self.definition.entry
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
                self.spec.names(), self.operands, self.types, strict=True
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
        step, definition = self.step, self.definition
        grads = [grad for grad in self.grads if grad is not None]
        types = tuple((grad.shape, grad.dtype) for grad in grads)
        autocast = definition.frontend.tracing.autocast_dtype()  # usually off in a backward
        autocasts = (step.autocast, autocast)
        read = (self.spec.key, step.reads)
        key = (
            *(read, self.present, types, self.needed, autocasts),
            definition.frontend.graph.target,
        )
        operands = [*grads, *(self.kept[n] for n in self.taken)]
        lowered = computed(
            definition.derived, key, definition.lowering, partial(self._lower, operands)
        )
        if isinstance(lowered, Fallback):
            lowered.count_call()
            return self._stock(None)
        symbol = f"{definition.symbol}_backward"
        seed, count = step.seed if lowered.takes_state else None, len(lowered.results)
        inserted = definition.insert(symbol, operands, seed, lowered.handle, results=count)
        results = iter(inserted)
        return [next(results) if asked else None for asked in self.needed]

    def _lower(self, operands: Operands) -> Insertable | Fallback:
        """The derived backward as a computation."""
        alternative = self.step.computation.alternative
        definition = self.definition
        if alternative is not None:
            lowered = self._alternative(alternative, operands)
            if isinstance(lowered, Insertable):
                definition.take(alternative, backward=True)
                return lowered
            definition.decline(alternative, lowered, operands)
            definition.take(None, backward=True)
        return lower_composite(
            definition,
            definition.entry,
            definition.entry.backward_name,
            operands,
            self._attributes,
            partial(self._decompose, operands),
        )

    def _attributes(self) -> Mapping[str, str | None]:
        mask = attribute_types.boolean_list(self.needed)
        return {**self.step.computation.attributes, "output_mask": mask}

    def _decompose(self, operands: Operands) -> TracedFunction:
        """The gradient of the forward's decomposition."""
        # Values that were not saved are passed too, to check that nothing reads them.
        types = (self.types[n] for n in self.unsaved)
        unsaved = [None if type_ is None else meta_tensor(type_) for type_ in types]
        whole = self._traced([*operands, *unsaved], len(operands))
        if not unsaved:
            return whole
        reads = whole.reads()
        self.refuse_unsaved(reads[len(reads) - len(unsaved) :])
        # No result depends on the value of an operand that was not saved.
        return self._traced(operands, len(operands))

    def _traced(self, operands: Operands, count: int) -> TracedFunction:
        """Trace the derived backward; operands after the first `count` were not saved."""
        entry, frontend = self.definition.entry, self.definition.frontend
        is_jax = entry.decomposition.kind == "jax"
        run, framework = self.step.run, gradients
        if is_jax:
            run, framework = jax_function(entry, self.spec), jax_frontend()

        def backward(*values: Any) -> list[Any]:
            unsaved = iter(values[count:])
            blank = self._blank(values, is_jax)
            recomputed: list[Any] = []

            def forward(*operands: Any) -> Any:
                results = run(*operands)
                recomputed[:] = pytree.tree_leaves(results)
                return results

            pulled = self.pull(
                run if is_jax else forward,
                values[:count],
                blank if len(values) == count else lambda type_: next(unsaved),
                framework,
            )
            for number, saved in self.saved_results(values[:count]).items():
                if not is_jax:
                    frontend.tensors.read_instead(recomputed[number], saved)
            return pulled

        autocast = frontend.tracing.autocast_dtype()
        return lower_function(entry, frontend, backward, operands, autocast=autocast)

    def _blank(self, values: Sequence[Any], is_jax: bool) -> Callable[[TensorMeta], Any]:
        """A function that makes values of a type, tensors or arrays like `values`."""
        tensors = self.definition.frontend.tensors
        if is_jax:
            return lambda type_: jax_frontend().blank(tensors.tensor_type(meta_tensor(type_)))
        device = next(value.device for value in values if value is not None)
        return lambda type_: _blank(type_, device, needed=False)

    def _alternative(self, alternative: Kernel, operands: Operands) -> Insertable | str:
        """The derived backward of the alternative that took the call, or the reason why the
        alternative has none."""
        definition = self.definition
        decomposition = alternative.backward or alternative.forward
        assert decomposition is not None
        function = self._backward_function(alternative)
        if isinstance(function, str):
            return function
        lowered = lower_alternative(
            definition,
            alternative,
            decomposition,
            function,
            definition.entry.backward_name,
            operands,
            self._attributes,
            autocast=definition.frontend.tracing.autocast_dtype(),
            check=partial(self._check_gradients, alternative),
        )
        return lowered.reason if isinstance(lowered, Fallback) else lowered

    def _backward_function(self, alternative: Kernel) -> Callable[..., list[Any]] | str:
        """An alternative's backward as a function of the derived backward's operands, or the reason
        why it lacks a gradient."""
        if alternative.derives:
            assert alternative.forward is not None
            return self._derived_from(alternative.forward)
        if alternative.backward is None:
            return "it has no backward, so the backward is that of the entry"
        pairs = zip(self.spec.names(), self.needed, strict=True)
        asked = {name for name, is_needed in pairs if is_needed}
        unknown = sorted(asked - set(alternative.gradients))
        if unknown:
            return f"it has no gradient of {', '.join(unknown)}"
        mask = [name in asked for name in alternative.gradients]
        run = bind_backward(alternative.backward, alternative.gradients, mask)
        changed = as_entry(self.definition.entry, alternative, alternative.backward)

        def returned(*tensors: Any) -> list[Any]:
            grads, saved = self.split(tensors)
            pulled = run(self.named(saved, grads))
            by_name = dict(zip(alternative.gradients, pulled, strict=True))
            by_operand = gradients_by_operand(self.spec, by_name, changed)
            return [g for g, is_asked in zip(by_operand, self.needed, strict=True) if is_asked]

        return returned

    def _derived_from(self, decomposition: Decomposition) -> Callable[..., list[Any]]:
        """The gradient of an alternative's decomposition."""
        is_jax, autocast = decomposition.kind == "jax", self.step.autocast
        forward = bind_forward(decomposition, self.spec, saved=False)
        framework = jax_frontend() if is_jax else gradients

        def pulled(*values: Any) -> list[Any]:
            blank = self._blank(values, is_jax)
            with self.definition.frontend.tracing.autocast(autocast):
                return self.pull(forward, values, blank, framework, replaces=False)

        return pulled

    def _check_gradients(
        self, alternative: Kernel, entry: Composite, composite: EmittedComposite
    ) -> None:
        """Check the types of the results of an alternative's backward.

        Raises:
            LoweringError: a gradient and its operand differ in type.
        """
        tensors = self.definition.frontend.tensors
        due = [
            tensors.tensor_type(meta_tensor(type_))
            for type_, asked in zip(self.types, self.needed, strict=True)
            if asked and type_ is not None
        ]
        if due != list(composite.results):
            raise LoweringError(
                f"{entry.location}: {entry.qualified}: {alternative.name}: the backward gives"
                f" {', '.join(map(str, composite.results))} as gradients of operands of"
                f" {', '.join(map(str, due))}"
            )


def _blank(type_: TensorMeta | None, device: torch.device, needed: bool) -> torch.Tensor | None:
    if type_ is None:
        return None
    return torch.zeros(type_[0], dtype=type_[1], device=device, requires_grad=needed)
