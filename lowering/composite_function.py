"""A composite that autograd sees: what hooks above the backend and Python functions call.

Without gradients a call becomes one node of the graph. With gradients it is a
`torch.autograd.Function` whose forward and backward are a composite each. The backward's
decomposition is the gradient of the forward's (`backward: derive`), or a function of the entry's
own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.autograd import forward_ad
from torch.utils import _pytree as pytree

from composites.errors import UnsupportedCallError
from composites.registry.functions import find_function
from composites.registry.model import Composite
from lowering.compiled_calls import Differentiable
from lowering.composite_step import (
    Computation,
    ExplicitBackward,
    Operands,
    Step,
    local_name,
    result_name,
)
from lowering.computations import Lowering, remember
from lowering.decomposition import Call, lower_function, lower_jax
from lowering.emission.composite import DecompositionHlo
from lowering.frontends import Frontend, Kernel, Seed
from lowering.gradients import gradients_of
from lowering.hooks import STOCK, lower_composite
from lowering.keys import UNKNOWN

Attributes = Callable[[], Mapping[str, str | None]]
_PLAIN = (torch.Tensor, torch.nn.Parameter)


@dataclass(frozen=True, slots=True)
class Arguments:
    """One call, as a generated hook hands it over."""

    key: tuple[Hashable, ...]
    """Everything the composite depends on."""
    operands: Operands
    """In the composite's order; None for an absent one."""
    matches: Callable[[], bool]
    """Whether the entry's conditions hold."""
    attributes: Attributes
    """Gives the attributes as MLIR text."""
    call: Call
    """Calls a function of the same signature with other tensors as operands; keeps no tensor."""
    otherwise: Callable[[], Any]
    """Takes the stock route."""
    values: Callable[[], Mapping[str, Any]] = dict
    """The arguments that are no operands, by name, for a backward of the entry's own."""


@dataclass(frozen=True, slots=True)
class OwnOperator:
    """An operator of ours that stands for an entry's in compiled graphs without gradients, and in
    those for any size; `compiled_calls` has the other ones."""

    call: Kernel
    draws: bool
    """Whether it draws random numbers, so that no backward may run it a second time."""


@dataclass(slots=True)
class CompositeFunction:
    """One entry above the backend, for one set of active entries."""

    entry: Composite
    frontend: Frontend
    native: Kernel
    """The stock kernel, or the function that was caught."""
    operator: OwnOperator | None = None
    """What torch.compile keeps as one node where there are no gradients."""
    backward: ExplicitBackward | None = None
    forward: dict[Hashable, Any] = field(default_factory=dict)
    """From the key of a call to its computation, or STOCK."""
    derived: dict[Hashable, Any] = field(default_factory=dict)
    """The same of its backward, where that is derived."""
    lowering: Lowering = field(default_factory=Lowering)

    def __call__(self, arguments: Arguments) -> Any:
        """Run a call as a composite where it can be one, else on the stock route."""
        operands = arguments.operands
        if self.lowering.active or _transformed():
            return arguments.otherwise()
        if not all(t is None or (type(t) in _PLAIN and _on_xla(t)) for t in operands):
            return self._compiled(arguments)
        computation = self._computation(arguments, _wanted(operands))
        if computation is STOCK:
            return arguments.otherwise()
        seed = self.frontend.seed() if computation.draws else None
        if any(computation.differentiable):
            step = self._step(arguments, computation, seed)
            results = _Differentiable.apply(step, step, *operands)  # type: ignore[no-untyped-call]
        else:
            results = self.insert(self.symbol, operands, seed, computation.handle)
        if seed is not None:
            self.frontend.advance(computation.draws)
        return self._returned(results, arguments, computation)

    def _step(self, arguments: Arguments, computation: Computation, seed: Seed | None) -> Step:
        operands = arguments.operands
        return Step(
            composite=self,
            key=arguments.key,
            call=arguments.call,
            values=arguments.values() if self.backward else {},
            computation=computation,
            seed=seed,
            types=tuple(t if t is None else (t.shape, t.dtype) for t in operands),
            autocast=self.frontend.autocast_dtype(),
        )

    def _returned(
        self, results: Sequence[torch.Tensor], arguments: Arguments, computation: Computation
    ) -> Any:
        """The results as the operator or function returns them."""
        if self.entry.results:
            return tuple(self.entry.completed(results, arguments.otherwise))
        return pytree.tree_unflatten(list(results), computation.structure)

    def run(self, call: Call, autocast: torch.dtype | None, *operands: torch.Tensor | None) -> Any:
        """What the composite stands for, on other operands, under the autocast of its call."""
        with self.frontend.autocast(autocast):
            return self.entry.exposed(call(self.function, *operands))

    @property
    def symbol(self) -> str:
        """Name of the node in the frontend's graph; torch wants `namespace::name`."""
        return f"{self.entry.namespace}::{self.entry.composite}"

    def insert(
        self, symbol: str, operands: Operands, seed: Seed | None, handle: Any
    ) -> Sequence[torch.Tensor]:
        """Insert a computation; absent operands are left out, the seed comes last."""
        present = [t for t in operands if t is not None]
        if seed is not None:
            present.append(seed.state)
        return self.frontend.insert(symbol, present, handle)

    def _compiled(self, arguments: Arguments) -> Any:
        """A call with tensors that stand for others, as in torch.compile: operators of ours."""
        operands = arguments.operands
        if not all(t is None or (_is_traced(t) and _on_xla(t)) for t in operands):
            return arguments.otherwise()
        wanted = _wanted(operands)
        fixed = all(t is None or _has_fixed_shape(t) for t in operands)
        if fixed and (wanted is not None or self.operator is None):
            computation = self._computation(arguments, wanted)
            if computation is STOCK or computation.draws:
                return arguments.otherwise()
            step = self._step(arguments, computation, None)
            key = self._key(arguments, wanted)
            call = self.frontend.compiled_calls.add(self.entry.qualified, key, step)
            if any(computation.differentiable):
                results = _Differentiable.apply(call, step, *operands)  # type: ignore[no-untyped-call]
            else:
                results = call.forward(operands)
            return self._returned(results, arguments, computation)
        if self.operator is None or not arguments.matches():
            return arguments.otherwise()
        if wanted is None:
            return arguments.call(self.operator.call, *operands)
        # In a graph for any size the backward is made of stock operators, which run the forward
        # once more. That is worth its time only where stock is not what the composite means.
        if self.entry.decomposition.target is None or self.operator.draws:
            return arguments.otherwise()
        return _Recomputed.apply(self, arguments.call, self.frontend.autocast_dtype(), *operands)  # type: ignore[no-untyped-call]

    def _can_differentiate(self, wanted: tuple[bool, ...]) -> bool:
        if self.backward is None:
            return self.entry.derives
        known = self.backward.entry.gradients
        return all(n in known for n, w in zip(self.entry.operands, wanted, strict=True) if w)

    def _key(self, arguments: Arguments, wanted: tuple[bool, ...] | None) -> Hashable:
        return (arguments.key, wanted, self.frontend.autocast_dtype(), self.frontend.target)

    def _computation(self, arguments: Arguments, wanted: tuple[bool, ...] | None) -> Any:
        """The computation of a call, or STOCK; `wanted` as `_wanted` gives it."""
        key = self._key(arguments, wanted)
        computation = self.forward.get(key)
        if computation is None:
            with self.lowering.begun():
                claimed = UNKNOWN not in arguments.key and arguments.matches()
                claimed = claimed and (wanted is None or self._can_differentiate(wanted))
                computation = self._lower(arguments, wanted) if claimed else STOCK
            remember(self.forward, key, computation)
        return computation

    def _lower(self, arguments: Arguments, wanted: tuple[bool, ...] | None) -> Any:
        traced: list[tuple[pytree.TreeSpec, tuple[bool, ...]]] = []
        saved = [find_function(target) for _, target in self.entry.saved] if wanted else []
        autocast = self.frontend.autocast_dtype()

        def forward(*tensors: torch.Tensor | None) -> list[torch.Tensor]:
            for tensor, leaf in zip(tensors, wanted or (), strict=False):
                if tensor is not None:
                    tensor.requires_grad_(leaf)
            with torch.set_grad_enabled(wanted is not None):
                outputs = self.run(arguments.call, autocast, *tensors)
            flat, spec = pytree.tree_flatten(outputs)
            if any(_shares_memory(result, tensors) for result in flat):
                raise UnsupportedCallError("a result is an operand, or a view of one")
            traced[:] = [(spec, tuple(result.requires_grad for result in flat))]
            extra = [arguments.call(function, *tensors) for function in saved]
            return [result.detach() for result in (*flat, *extra)]

        def decompose() -> DecompositionHlo:
            if self.entry.decomposition.kind == "jax":
                return lower_jax(self.entry, self.frontend, arguments.call, arguments.operands)
            return lower_function(
                self.entry, self.frontend, forward, arguments.operands, autocast=autocast
            )

        lowered = lower_composite(
            self.entry,
            self.entry.composite_name,
            self.frontend,
            arguments.operands,
            arguments.attributes,
            decompose,
        )
        if lowered is STOCK:
            return STOCK
        if traced:
            spec, differentiable = traced[0]
        else:  # a JAX function, which autograd does not see: its backward is an entry, or nothing
            found = self.backward is not None and wanted is not None
            count = len(lowered.results)
            spec, differentiable = _structure(count), (found,) * count
        results = spec.num_leaves
        return Computation(
            handle=lowered.handle,
            results=results,
            types=tuple(
                (torch.Size(type_.shape), self.frontend.dtype(type_.element_type))
                for type_ in lowered.results
            ),
            structure=spec,
            differentiable=differentiable,
            taken=self._taken(results),
            kept=self._kept(results),
            draws=lowered.draws,
            attributes=lowered.attributes,
        )

    def _names(self, results: int) -> list[str]:
        """Operands, results and what is saved beside them, as `saves` calls them."""
        return [
            *self.entry.operands,
            *(result_name(n, ".") for n in range(results)),
            *(name for name, _ in self.entry.saved),
        ]

    def _taken(self, results: int) -> tuple[int, ...]:
        """The places of what `saves` lists; all operands where it is not there."""
        saves = self.entry.operands if self.entry.saves is None else self.entry.saves
        return tuple(n for n, name in enumerate(self._names(results)) if name in saves)

    def _kept(self, results: int) -> tuple[int, ...]:
        """The places of what autograd keeps: besides, what a backward of the entry's own names."""
        named = () if self.backward is None else self.backward.parameters
        taken = self._taken(results)
        names = enumerate(self._names(results))
        return tuple(n for n, name in names if n in taken or local_name(name) in named)

    @property
    def function(self) -> Kernel:
        """What the composite means, as a function of what the hook's `call` passes."""
        target = self.entry.decomposition.target
        return self.native if target is None else find_function(target)


class _Differentiable(torch.autograd.Function):
    """Forward and backward as one composite each."""

    @staticmethod
    def forward(ctx: Any, call: Differentiable, step: Step, *operands: torch.Tensor | None) -> Any:
        """Run `call`, which is the step itself, or what stands for it in a compiled graph."""
        flat = call.forward(operands)
        results = flat[: step.computation.results]
        ctx.call = call
        # A result is kept as a tensor of its own, which has the same value in the graph: stock's
        # backward mostly does not read it, so programs may write into it.
        tensors = (*operands, *flat)
        inner = range(len(operands), len(operands) + len(results))
        ctx.save_for_backward(
            *(
                flat[n - len(operands)].clone() if n in inner else tensors[n]
                for n in step.computation.kept
            )
        )
        ctx.set_materialize_grads(False)
        differentiable = zip(results, step.computation.differentiable, strict=True)
        ctx.mark_non_differentiable(*(t for t, wanted in differentiable if not wanted))
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> Any:
        output_mask = ctx.needs_input_grad[2:]
        if all(grad is None for grad in grads):
            return (None, None, *[None] * len(output_mask))
        return (None, None, *ctx.call.backward(grads, ctx.saved_tensors, output_mask))


class _Recomputed(torch.autograd.Function):
    """The forward as an operator of ours, the backward as PyTorch gives it for what it stands for:
    in a compiled graph it becomes stock operators, which run the forward once more."""

    @staticmethod
    def forward(
        ctx: Any,
        composite: CompositeFunction,
        call: Call,
        autocast: torch.dtype | None,
        *operands: torch.Tensor | None,
    ) -> Any:
        assert composite.operator is not None
        ctx.composite, ctx.call, ctx.autocast = composite, call, autocast
        ctx.save_for_backward(*operands)
        ctx.set_materialize_grads(False)
        return call(composite.operator.call, *operands)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> Any:
        composite: CompositeFunction = ctx.composite
        with composite.lowering.begun():
            found = gradients_of(
                partial(composite.run, ctx.call, ctx.autocast),
                ctx.saved_tensors,
                tuple(ctx.needs_input_grad[3:]),
                grads,
                create_graph=torch.is_grad_enabled(),
            )
        return (None, None, None, *found)


def _shares_memory(result: torch.Tensor, operands: Operands) -> bool:
    whole = result if result._base is None else result._base
    return any(whole is operand for operand in operands)


def _wanted(operands: Operands) -> tuple[bool, ...] | None:
    """For each operand whether it has a gradient; None where none has, or autograd is off."""
    if not torch.is_grad_enabled():
        return None
    wanted = tuple(t is not None and t.requires_grad for t in operands)
    return wanted if any(wanted) else None


def _is_traced(tensor: torch.Tensor) -> bool:
    """Whether it is real, or stands for one while torch.compile traces: no other subclass."""
    return type(tensor) in _PLAIN or isinstance(tensor, FunctionalTensor | FakeTensor)


def _has_fixed_shape(tensor: torch.Tensor) -> bool:
    return all(type(size) is int for size in tensor.shape)


def _on_xla(tensor: torch.Tensor) -> bool:
    return tensor.is_xla  # type: ignore[attr-defined,no-any-return]


def _transformed() -> bool:
    """Whether torch.func or forward-mode differentiation is at work, which sees stock operators."""
    return (
        forward_ad._current_level >= 0 or torch._C._functorch.peek_interpreter_stack() is not None
    )


def _structure(results: int) -> pytree.TreeSpec:
    """How an operator returns so many results."""
    return pytree.tree_structure(0 if results == 1 else (0,) * results)
