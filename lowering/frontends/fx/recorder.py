"""Recording a whole program without running it, and lowering it to StableHLO."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import torch

from composites import torch_internals
from lowering.frontends.errors import other_device
from lowering.frontends.fx import DEVICE_TYPE, capture, sources
from lowering.frontends.fx.autocast import offered
from lowering.frontends.fx.graph import FxGraph
from lowering.frontends.fx.lower import array_function
from lowering.frontends.fx.random import drawing_from, states_offered
from lowering.frontends.fx.sizes import symbolic, vary
from lowering.frontends.fx.tensors import FxTensors
from lowering.frontends.jax.functions import lower_to_stablehlo
from lowering.frontends.protocols import Bounds, GraphParameter, LoweredGraph
from lowering.frontends.tensor_types import description
from lowering.stablehlo import (
    bindings,
    canonicalize,
    clean_passes,
    drop_unused_functions,
    flatten_calls,
    fold_data_movement,
    legalize_chlo,
    run_passes,
    share_decompositions,
    unmerge_batch_dimensions,
)

_PASSES = (
    flatten_calls,
    drop_unused_functions,
    partial(legalize_chlo, kept=("chlo.erf",)),
    fold_data_movement,
    unmerge_batch_dimensions,
    canonicalize,
    share_decompositions,
)
"""The passes after which `clean` would change only the names of a program. Functions that JAX
repeats for each call are written once, in the form of torch_xla's exports."""


@contextmanager
def device_offered() -> Iterator[None]:
    """A context in which PyTorch treats the device of traced tensors as an accelerator: autocast,
    states of random numbers, operators of lists. One thread at a time is in this context."""
    with (
        capture.LOCK,
        states_offered(),
        offered(),
        torch_internals.foreach_offered(DEVICE_TYPE),
    ):
        yield


class FxRecording:
    """See `lowering.frontends.protocols.Recording`."""

    def __init__(self, graph: FxGraph) -> None:
        self._graph = graph
        self._seed: capture.TracedTensor | None = None
        """The random seed of the last recording."""

    @contextmanager
    def recording(self, *, shared: bool = False) -> Iterator[None]:
        blank = torch.empty((), dtype=torch.int64, device="meta")
        try:
            with (
                device_offered(),
                self._graph.recorded(shared=shared),
                capture.recording(),
                torch_internals.printing(_text),
                torch_internals.block_masks_on(capture.device()),
                # A device that was registered after the first backward has no thread.
                torch.autograd.set_multithreading_enabled(False),
                # PyTorch calls operators of control flow through torch.compile.
                torch.compiler.set_stance("force_eager"),
            ):
                self._seed = capture.placeholder(blank)
                with drawing_from(self._seed), capture.errors_at_end():
                    yield
        except RuntimeError as error:
            foreign = other_device(str(error))
            if foreign is None:
                raise
            raise foreign from error

    @contextmanager
    def symbolic(self, dimensions: Bounds) -> Iterator[Mapping[str, Any]]:
        with capture.LOCK, symbolic(dimensions) as sizes:
            yield sizes

    def unchanged(
        self, tensors: Sequence[torch.Tensor], placeholders: Sequence[torch.Tensor]
    ) -> list[bool]:
        inputs = {capture.traced(tensor).node for tensor in placeholders}
        return [
            FxTensors.owns(tensor) and capture.traced(tensor).node in inputs for tensor in tensors
        ]

    def has_no_value(self, tensor: torch.Tensor) -> bool:
        return FxTensors.owns(tensor)

    def located(self) -> AbstractContextManager[None]:
        return sources.located()

    def lower_graph(
        self,
        outputs: Sequence[torch.Tensor],
        inputs: Sequence[torch.Tensor],
        *,
        located: bool = False,
    ) -> LoweredGraph:
        seed = self._seed
        assert seed is not None, "a graph is lowered after it was recorded"
        with capture.recording(seed.node.graph):  # views of tensors that were written are made now
            results = [capture.traced(tensor) for tensor in outputs]
            operands = [*(capture.traced(tensor) for tensor in inputs), seed]
        function, read, nodes = array_function(results, operands, located=located)
        types = [FxTensors.tensor_type(operands[position]) for position in read]
        lowered = lower_to_stablehlo(function, types, symbolic=vary() and not located)
        if located:
            lowered = sources.with_sources(lowered, nodes)
        else:  # drop JAX's locations, which are lines of the rules and not of the program
            bindings.run_pipeline(lowered.ir, "builtin.module(strip-debuginfo)")
        module = run_passes(lowered, clean_passes() if located else _PASSES, verify=False)
        parameters = tuple(
            GraphParameter(None if n == len(inputs) else n, FxTensors.tensor_type(operands[n]))
            for n in read
        )
        return LoweredGraph(module, parameters, tuple(map(FxTensors.tensor_type, results)))


def _text(tensor: Any) -> str | None:
    if not isinstance(tensor, torch.Tensor) or not FxTensors.owns(tensor):
        return None
    return description(tensor)
