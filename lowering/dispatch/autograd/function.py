"""A composite that autograd sees, which hooks at autograd's dispatch key and of functions call.

Without gradients, a call becomes one node of the graph. With gradients, it becomes a
`torch.autograd.Function` whose forward and backward are one composite each. The decomposition of
the backward is the gradient of the forward's decomposition (`backward: derive`), or that of a
separate entry.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import compress
from operator import not_
from typing import Any

import torch

from composites import torch_internals
from lowering.dispatch.autograd.compiled_calls import CompiledCall, CompiledCalls
from lowering.dispatch.autograd.computation import Computation, can_differentiate, lower_forward
from lowering.dispatch.autograd.step import AutogradCall
from lowering.dispatch.call import CallSpec, ungrouped
from lowering.dispatch.computations import computed
from lowering.dispatch.definition import PLAIN, ActiveEntry, Operands
from lowering.dispatch.keys import UNKNOWN
from lowering.dispatch.reads import Key, refusal
from lowering.dispatch.statistics import Fallback
from lowering.frontends.protocols import Kernel, Seed

_UNKNOWN = (
    "an argument is neither a number, a string, a dtype, None nor a list of these; no composite can"
    " depend on it"
)


@dataclass(slots=True)
class CompositeFunction:
    """One entry that is caught above the backend, for one set of active entries."""

    definition: ActiveEntry
    compiled_calls: CompiledCalls
    otherwise: Kernel
    """Takes the calls that the entry does not claim."""
    forward: dict[Hashable, Any] = field(default_factory=dict)
    """The computation of a call, or a Fallback, by the call's key."""

    def __call__(self, spec: CallSpec) -> Any:
        """Run a call as a composite if possible. Otherwise fall back to the stock lowering.

        A call with torch.compile's tensors becomes an operator of `compiled_calls`.
        """
        definition, operands = self.definition, spec.operands
        owns = definition.frontend.tensors.owns
        if definition.lowering.active:
            return spec.otherwise(self.otherwise)
        if torch_internals.is_transformed():
            return self._stock(spec, "it is inside a transform of torch.func")
        runs = all(t is None or (type(t) in PLAIN and owns(t)) for t in operands)
        if not runs:
            if not spec.is_flat:
                return self._call_lists(spec)
            if not any(isinstance(t, torch.Tensor) and owns(t) for t in operands):
                return spec.otherwise(self.otherwise)  # a call on another device
        unusable = definition.watching_mode() if runs else self._unusable(spec)
        if unusable is not None:
            return self._stock(spec, unusable)
        needed = _needed(operands)
        computation = self._computation(spec, needed)
        if isinstance(computation, Fallback):
            computation.count_call()
            return spec.otherwise(self.otherwise)
        if computation.draws and not runs:
            return self._stock(spec, "torch.compile, and it draws random numbers")
        definition.statistics.caught += 1
        random_numbers = definition.frontend.random_numbers
        seed = random_numbers.seed() if computation.draws else None
        differentiable = any(computation.differentiable)
        if runs and not differentiable:
            results = computation.insert(definition, operands, seed)
        else:
            step = self._step(spec, computation, seed)
            call: AutogradCall | CompiledCall = step
            if not runs:
                key = (definition.entry.version, definition.chosen, self._key(spec, needed))
                call = self.compiled_calls.add(definition.entry.qualified, key, step)
            results = _differentiable(call, operands) if differentiable else call.forward(operands)
        if seed is not None:
            random_numbers.advance(computation.draws)
        if definition.entry.results:
            missing = partial(spec.otherwise, self.otherwise)
            return tuple(definition.entry.completed(results, missing))
        return computation.returned(results)

    def _call_lists(self, spec: CallSpec) -> Any:
        """Run a call with lists of tensors, each of which becomes an operand."""
        if any(key is UNKNOWN for key in spec.key):
            owned = self.definition.frontend.tensors.owns
            values = ungrouped(spec.operands)[0]
            if any(isinstance(t, torch.Tensor) and owned(t) for t in values):
                return self._stock(spec, _UNKNOWN)
            return spec.otherwise(self.otherwise)
        flat = spec.flat()
        if not any(isinstance(operand, torch.Tensor) for operand in flat.operands):
            return spec.otherwise(self.otherwise)
        return self(flat)

    def _step(self, spec: CallSpec, computation: Computation, seed: Seed | None) -> AutogradCall:
        return AutogradCall(
            definition=self.definition,
            reads=self.definition.read_now(spec.key),
            spec=spec.kept(),
            computation=computation,
            seed=seed,
            types=tuple(t if t is None else (t.shape, t.dtype) for t in spec.operands),
            autocast=self.definition.frontend.tracing.autocast_dtype(),
        )

    def _key(self, spec: CallSpec, needed: tuple[bool, ...] | None) -> tuple[Any, ...]:
        frontend = self.definition.frontend
        autocast = frontend.tracing.autocast_dtype()
        read = self.definition.read_now(spec.key)
        return (spec.key, needed, autocast, frontend.graph.target, read)

    def _computation(self, spec: CallSpec, needed: tuple[bool, ...] | None) -> Any:
        """The computation of a call, or a `Fallback`. `needed` is the result of `_needed`."""
        key = self._key(spec, needed)
        computation = self.forward.get(key)
        if computation is None:
            make = partial(self._new_computation, spec, needed, key[-1])
            computation = computed(self.forward, key, self.definition.lowering, make)
        return computation

    def _new_computation(
        self, spec: CallSpec, needed: tuple[bool, ...] | None, reads: Key
    ) -> Computation | Fallback:
        statistics, unmet = self.definition.statistics, self._unmet(spec, needed)
        if unmet is not None:
            return statistics.fallback(unmet, spec.operands)
        computation = lower_forward(self.definition, spec, needed)
        written = self.definition.refuse_written(spec.key, reads)
        return computation if written is None else statistics.fallback(written, spec.operands)

    def _unmet(self, spec: CallSpec, needed: tuple[bool, ...] | None) -> str | None:
        """The reason why a call cannot be the composite; None if it can be."""
        if UNKNOWN in spec.key:
            return _UNKNOWN
        unmet = refusal(self.definition.read_now(spec.key)) or spec.unmet()
        if unmet is not None:
            return unmet
        names = spec.names()
        if needed is not None and not can_differentiate(self.definition, names, needed):
            pairs = zip(names, needed, strict=True)
            requested = ", ".join(dict.fromkeys(name for name, is_needed in pairs if is_needed))
            return f"the entry has no backward for the requested gradients ({requested})"
        return None

    def _unusable(self, spec: CallSpec) -> str | None:
        """The reason why a graph of torch.compile cannot hold a call with these operands; None if
        it can."""
        owns = self.definition.frontend.tensors.owns
        for name, value in zip(spec.names(), spec.operands, strict=True):
            if value is None:
                continue
            if not isinstance(value, torch.Tensor):
                return f"{name} is not a tensor; list it in `attributes`"
            if not owns(value):
                return f"{name} is on the device {value.device}"
            # A plain tensor, or one that represents a plain tensor in torch.compile's trace.
            if type(value) not in PLAIN and not torch_internals.stands_for_a_tensor(value):
                return f"{name} is a {type(value).__name__}, a subclass of Tensor"
            if not all(type(size) is int for size in value.shape):
                return "torch.compile with dynamic shapes"
        return None

    def _stock(self, spec: CallSpec, reason: str) -> Any:
        """Count the call, and run the stock operator or function."""
        self.definition.statistics.fallback(reason, spec.operands).count_call()
        return spec.otherwise(self.otherwise)


def _differentiable(
    call: AutogradCall | CompiledCall, operands: Operands
) -> Sequence[torch.Tensor]:
    """The results of a call with gradients."""
    constant: list[torch.Tensor] = []
    differentiable = iter(_Differentiable.apply(call, constant, *operands))  # type: ignore[no-untyped-call]
    constants = iter(constant)
    has_gradient = call.computation.differentiable
    return [next(differentiable) if has else next(constants) for has in has_gradient]


class _Differentiable(torch.autograd.Function):
    """A forward and a backward that are one composite each. The results of `apply` are those with a
    gradient, so that hooks on the node get as many gradients as with the stock operator."""

    @staticmethod
    def forward(
        ctx: Any,
        call: AutogradCall | CompiledCall,
        constant: list[torch.Tensor],
        *operands: torch.Tensor | None,
    ) -> Any:
        """Run `call`, and add the results without a gradient to `constant`."""
        computation = call.computation
        flat = call.forward(operands)
        results, first = flat[: computation.results], len(operands)
        ctx.call = call
        # A saved result is a separate tensor with the same value in the graph. Stock gradients
        # mostly do not read the result, so programs are free to write to it.
        tensors: list[Any] = [*operands, *flat]
        last = first + len(results)
        saved = [tensors[n].clone() if first <= n < last else tensors[n] for n in computation.kept]
        ctx.save_for_backward(*saved)
        ctx.set_materialize_grads(False)
        constant.extend(compress(results, map(not_, computation.differentiable)))
        return tuple(compress(results, computation.differentiable))

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> Any:
        call, present = ctx.call, iter(grads)
        grads = tuple(next(present) if d else None for d in call.computation.differentiable)
        asked = zip(ctx.needs_input_grad[2:], call.computation.reaches(grads), strict=True)
        output_mask = tuple(is_asked and is_reached for is_asked, is_reached in asked)
        if not any(output_mask):
            return (None, None, *[None] * len(output_mask))
        return (None, None, *call.backward(grads, ctx.saved_tensors, output_mask))


def _needed(operands: Operands) -> tuple[bool, ...] | None:
    """For each operand, True if it needs a gradient; None if none does or autograd is off."""
    if not torch.is_grad_enabled():
        return None
    needs_grad = tuple(t is not None and t.requires_grad for t in operands)
    return needs_grad if any(needs_grad) else None
