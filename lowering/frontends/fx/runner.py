"""Running recorded calls with jax's CPU client."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from lowering.frontends.fx import capture
from lowering.frontends.fx.random import drawing_from
from lowering.frontends.fx.recorder import FxRecording
from lowering.frontends.fx.tensors import FxTensors
from lowering.frontends.protocols import LoweredGraph
from lowering.stablehlo import Module
from lowering.stablehlo.dtypes import numpy_dtype
from lowering.stablehlo.run import compile_module


@contextmanager
def running(recording: FxRecording) -> "Iterator[FxRunningGraph]":
    """A context in which calls are made that run as one graph."""
    with torch.inference_mode(False), recording.recording(), torch.set_grad_enabled(True):
        yield FxRunningGraph(recording)


class FxRunningGraph:
    """See `lowering.frontends.protocols.RunningGraph`. Tensors that are placed become parameters of
    a recorded graph, and their values are kept separately."""

    def __init__(self, recording: FxRecording) -> None:
        self._recording = recording
        self._placed: list[torch.Tensor] = []
        self._arguments: list[Any] = []
        self._lowered: LoweredGraph | None = None
        self._results: dict[int, torch.Tensor] = {}

    def put(self, tensor: torch.Tensor) -> torch.Tensor:
        self._placed.append(FxTensors.placeholder(tensor))
        self._arguments.append(_array(tensor))
        # A copy, because calls may write to the tensor but not to the parameter.
        return self._placed[-1].clone()

    @contextmanager
    def call(self) -> Iterator[None]:
        state = capture.constant(torch.zeros((), dtype=torch.int64))
        with drawing_from(state), capture.errors_at_end():
            yield

    def stablehlo(self, tensors: Sequence[torch.Tensor]) -> Module:
        self._lowered = self._recording.lower_graph(tensors, self._placed)
        return self._lowered.module

    def run(self, tensors: Sequence[torch.Tensor]) -> None:
        lowered = self._lowered or self._recording.lower_graph(tensors, self._placed)
        arrays = [
            np.int64(0) if parameter.operand is None else self._arguments[parameter.operand]
            for parameter in lowered.parameters
        ]
        results = compile_module(lowered.module)(*arrays)
        for tensor, result in zip(tensors, results, strict=True):
            self._results[id(tensor)] = _tensor(result, tensor.dtype)

    def values(self, tensor: torch.Tensor) -> torch.Tensor:
        return self._results[id(tensor)]


def _array(tensor: torch.Tensor) -> Any:
    plain = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    bits = plain.reshape(-1).view(torch.uint8).numpy()
    dtype = numpy_dtype(FxTensors.tensor_type(tensor).element_type)
    return bits.view(dtype).reshape(tuple(tensor.shape)).copy()


def _tensor(array: Any, dtype: torch.dtype) -> torch.Tensor:
    if not array.size:
        return torch.empty(array.shape, dtype=dtype)
    bits = np.ascontiguousarray(array).reshape(-1).view(np.uint8).copy()
    return torch.from_numpy(bits).view(dtype).reshape(array.shape)
