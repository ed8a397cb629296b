"""Tracing a function with placeholders, to get decompositions."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import torch

from composites import torch_internals
from lowering import interrupts
from lowering.emission.types import SEED_TYPE, TensorType
from lowering.frontends.captured import CapturedTensorsRefused, refuse_writes
from lowering.frontends.fx import capture
from lowering.frontends.fx.aten_graph import aten_graph
from lowering.frontends.fx.autocast import autocast, autocast_dtype
from lowering.frontends.fx.graph import FxDecomposition, FxGraph
from lowering.frontends.fx.lower import array_function
from lowering.frontends.fx.random import drawing_from
from lowering.frontends.fx.sizes import in_jax, in_pytorch, own_shapes
from lowering.frontends.fx.tensors import FxTensors, traced_placeholder
from lowering.frontends.jax.functions import lower_to_jaxpr


class FxTracing:
    """See `lowering.frontends.protocols.Tracing`."""

    def __init__(self, graph: FxGraph) -> None:
        self._graph = graph

    def autocast_dtype(self) -> torch.dtype | None:
        return autocast_dtype()

    def autocast(self, dtype: torch.dtype | None) -> AbstractContextManager[None]:
        return autocast(dtype)

    def trace(
        self,
        function: Callable[..., Any],
        operands: Sequence[Any],
        *,
        whole_dispatch: bool,
        autocast: torch.dtype | None = None,
        as_stock: bool = False,
    ) -> FxDecomposition:
        with (
            interrupts.deferred(),
            self._graph.tracing.raised(),
            capture.recording(),
            capture.errors_at_once(),
            capture.at_top() if whole_dispatch else torch.no_grad(),
            self.autocast(autocast),
            torch_internals.without_saved_tensors_hooks(),
        ):
            return self._traced(function, operands, whole_dispatch)

    def trace_arrays(
        self, function: Callable[..., Any], operands: Sequence[TensorType | None]
    ) -> FxDecomposition:
        shapes = own_shapes([None if t is None else in_pytorch(t.shape) for t in operands])
        types = [
            t if t is None or shape is None else replace(t, shape=in_jax(shape))
            for t, shape in zip(operands, shapes, strict=True)
        ]
        return FxDecomposition(lower_to_jaxpr(function, types))

    def _traced(
        self, function: Callable[..., Any], operands: Sequence[Any], whole_dispatch: bool
    ) -> FxDecomposition:
        shapes = own_shapes([None if t is None else t.shape for t in operands])
        inputs = [
            None if t is None else traced_placeholder(t, shape)
            for t, shape in zip(operands, shapes, strict=True)
        ]
        tensors = [
            torch_internals.functional(t) if whole_dispatch and t is not None else t for t in inputs
        ]
        blank = torch.empty((), dtype=torch.int64, device="meta")
        seed = capture.placeholder(blank)
        first = next((t for t in inputs if t is not None), seed).node

        def is_captured(tensor: torch.Tensor) -> bool:
            if not FxTensors.owns(tensor):
                return False
            node = capture.traced(tensor).node
            return node.graph is not first.graph or node < first

        with (
            drawing_from(seed) as state,
            CapturedTensorsRefused(is_captured),
            interrupts.allowed(),
        ):
            outputs = function(*tensors)
        refuse_writes(tensors)
        results = list(outputs) if isinstance(outputs, list | tuple) else [outputs]
        present = [t for t in inputs if t is not None]
        traced = [capture.traced(result) for result in results]
        computed, read, _ = array_function(traced, [*present, seed])
        takes_state = len(present) in read

        def run(*arrays: Any) -> list[Any]:
            return computed(*(arrays[position] for position in read))

        types = [*map(FxTensors.tensor_type, present), *([SEED_TYPE] if takes_state else [])]
        graph = aten_graph(traced, present)
        return FxDecomposition(lower_to_jaxpr(run, types), state.draws, takes_state, graph)
