"""Tracing a function with placeholders to HLO, to get decompositions."""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch_xla.core.xla_model as xm

from composites import torch_internals
from composites.errors import UnsupportedCallError
from composites.torch_internals import pytree
from lowering import interrupts
from lowering.emission.types import DecompositionHlo, TensorType
from lowering.frontends.autocast import autocast, autocast_dtype
from lowering.frontends.captured import CapturedTensorsRefused, refuse_writes
from lowering.frontends.finished_frames import clear_frames
from lowering.frontends.torch_xla import modes
from lowering.frontends.torch_xla.graph import XlaGraph, lowered
from lowering.frontends.torch_xla.missing_kernels import decomposed
from lowering.frontends.torch_xla.random import (
    MARK,
    XlaRandomNumbers,
    advances_between,
    advances_since_mark,
)
from lowering.frontends.torch_xla.tensors import (
    DEVICE_TYPE,
    XlaTensors,
    existed_before,
    has_no_value,
    made_since,
    next_id,
    read_values,
)
from lowering.frontends.torch_xla.value_guard import values_readable, values_unreadable

_MOST_DRAWS = 64
"""Maximum number of random operators in a decomposition."""


@dataclass(frozen=True, slots=True)
class _Traced:
    """A decomposition, and the values that it reads besides its operands."""

    decomposition: DecompositionHlo
    extras: Mapping[int, torch.Tensor]
    """Tensors that are not operands, by parameter."""
    numbers: frozenset[int]
    """The parameters that are Python numbers. torch_xla makes parameters of them unless a
    process-wide switch is set, which would change the graphs of other threads."""


class XlaTracing:
    """See `lowering.frontends.protocols.Tracing`."""

    def __init__(self, graph: XlaGraph, random_numbers: XlaRandomNumbers) -> None:
        self._graph = graph
        self._random_numbers = random_numbers
        self._top_of_dispatch = torch_internals.fresh_dispatch_state()

    def autocast_dtype(self) -> torch.dtype | None:
        return autocast_dtype(DEVICE_TYPE)

    def autocast(self, dtype: torch.dtype | None) -> AbstractContextManager[None]:
        return autocast(DEVICE_TYPE, dtype)

    def trace(
        self,
        function: Callable[..., Any],
        operands: Sequence[Any],
        *,
        whole_dispatch: bool,
        autocast: torch.dtype | None = None,
        as_stock: bool = False,
    ) -> DecompositionHlo:
        def traced() -> _Traced:
            with (
                self._graph.tracing.raised(),
                modes.tracing_mode(constants=self._graph.is_recorded),
                self._dispatching(whole_dispatch),
                decomposed() if self._graph.is_recorded else nullcontext(),
                torch.no_grad(),
            ):
                return _lowered(function, operands, autocast, self._random_numbers.tensors)

        _, handled, _ = sys.exc_info()
        # Tensors of an enclosing trace are needed after an error.
        is_outermost = not (self._graph.is_recorded or self._graph.tracing.active)
        try:
            # torch.compile may be tracing at this point
            with interrupts.deferred(), torch_internals.without_modes():
                return self._decomposition(traced, as_stock)
        except BaseException as error:
            clear_frames(error, _is_traced if is_outermost else lambda value: False, handled)
            raise

    def trace_arrays(
        self, function: Callable[..., Any], operands: Sequence[TensorType | None]
    ) -> DecompositionHlo:
        from lowering.frontends.jax.functions import lower_to_hlo  # JAX is imported if it is used

        return lower_to_hlo(function, operands)

    def _dispatching(self, whole_dispatch: bool) -> AbstractContextManager[Any]:
        if not whole_dispatch:
            return nullcontext()
        return torch_internals.dispatching_from(self._top_of_dispatch)

    def _decomposition(self, traced: Callable[[], _Traced], as_stock: bool) -> DecompositionHlo:
        before = xm.get_rng_state()
        trace = traced()
        draws = advances_between(before, xm.get_rng_state(), limit=_MOST_DRAWS)
        if draws is None:
            self._random_numbers.restore(before)
            raise UnsupportedCallError(f"it draws random numbers more than {_MOST_DRAWS} times")
        seed = None
        if draws != 0:
            # The function draws random numbers. The state in the graph that is being built may be
            # any expression by now, so the function is traced again with a plain parameter as the
            # state.
            self._random_numbers.restore(before)
            with self._random_numbers.at(MARK):
                trace = traced()
            with values_readable():
                counts = {n: advances_since_mark(tensor) for n, tensor in trace.extras.items()}
            seed = next((n for n, count in counts.items() if count == 0), None)
        return replace(
            trace.decomposition,
            seed=seed,
            draws=draws,
            numbers={n: read_values(trace.extras[n]) for n in trace.numbers if n != seed},
            hides_numbers=as_stock and self._graph.device == "CPU",
        )


def _is_traced(value: Any) -> bool:
    leaves = pytree.tree_leaves(value)
    return any(isinstance(leaf, torch.Tensor) and has_no_value(leaf) for leaf in leaves)


def _lowered(
    function: Callable[..., Any],
    operands: Sequence[Any],
    casting: torch.dtype | None,
    drawing: Sequence[torch.Tensor],
) -> _Traced:
    placeholders = [None if t is None else XlaTensors.placeholder(t) for t in operands]
    first = next_id()
    is_captured = existed_before(first, [*placeholders, *drawing])
    with (
        values_unreadable(),
        autocast(DEVICE_TYPE, casting),
        # The user's hooks must not see traced tensors, because these have no values.
        torch_internals.without_saved_tensors_hooks(),
    ):
        with CapturedTensorsRefused(is_captured), interrupts.allowed():
            outputs = function(*placeholders)
        refuse_writes(placeholders)
        outputs = list(outputs) if isinstance(outputs, list | tuple) else [outputs]
        context = lowered("decomposition", outputs)
    ids = [context.tensor_parameter_id(t) for t in placeholders if t is not None]
    parameters = tuple(i if i >= 0 else None for i in ids)
    data = context.device_parameter_id_tensor_mapping()
    extras = {number: tensor for number, tensor in data.items() if number not in parameters}
    scalars = {number for number, tensor in extras.items() if tensor.dim() == 0}
    made = made_since(first, outputs, context) if scalars else set()
    decomposition = DecompositionHlo(context.hlo(), parameters)
    return _Traced(decomposition, extras, frozenset(scalars & made))
