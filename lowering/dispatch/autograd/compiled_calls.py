"""Composites in graphs of torch.compile: two operators that represent a call.

torch.compile traces the forward and the backward with tensors that have no data, and produces
graphs of operators that run later. In these graphs the forward of a composite is one node and its
backward is another:

- `composites::forward(Tensor?[] operands, str composite, int call) -> Tensor[]`
- `composites::backward(Tensor?[] grads, Tensor?[] kept, bool[] output_mask, str composite,
  int call) -> Tensor[]`

A graph cannot hold the function or the computation. `call` is the number under which
`CompiledCalls` keeps them for the life of the process, because a compiled graph may run at any
time. PyTorch's own graphs hold Triton kernels in the same way
(`torch._higher_order_ops.triton_kernel_wrap`).
"""

import threading
import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.library import Library

from lowering.dispatch.autograd.computation import Computation
from lowering.dispatch.autograd.step import AutogradCall
from lowering.dispatch.definition import Gradients, meta_tensor
from lowering.frontends.protocols import Dispatching, Override

_library = Library("composites", "FRAGMENT")
_library.define("forward(Tensor?[] operands, str composite, int call) -> Tensor[]")
_library.define(
    "backward(Tensor?[] grads, Tensor?[] kept, bool[] output_mask, str composite, int call)"
    " -> Tensor[]"
)


@dataclass(frozen=True, slots=True)
class CompiledCall:
    """A call as two nodes of a graph."""

    computation: Computation
    composite: str
    number: int

    def forward(self, operands: Sequence[Tensor | None]) -> Sequence[Tensor]:
        """See `AutogradCall`."""
        results: list[Tensor] = torch.ops.composites.forward(
            list(operands), self.composite, self.number
        )
        return results

    def backward(
        self,
        grads: Sequence[Tensor | None],
        kept: Sequence[Tensor | None],
        output_mask: Sequence[bool],
    ) -> Gradients:
        """See `AutogradCall`."""
        gradients = torch.ops.composites.backward(
            list(grads), list(kept), list(output_mask), self.composite, self.number
        )
        rest = iter(gradients)
        return [next(rest) if asked else None for asked in output_mask]


@dataclass(frozen=True, slots=True)
class CompiledCalls:
    """The calls in the compiled graphs of this process, and the kernels of the two operators."""

    _calls: list[AutogradCall] = field(default_factory=list)
    _numbers: dict[Hashable, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, composite: str, key: Hashable, call: AutogradCall) -> CompiledCall:
        """Register a call for a graph. Calls of one composite with equal keys share one number."""
        with self._lock:
            number = self._numbers.setdefault((composite, key), len(self._calls))
            if number == len(self._calls):
                self._calls.append(call)
        return CompiledCall(call.computation, composite, number)

    def implement(self, dispatching: Dispatching) -> tuple[Override, ...]:
        """Register the kernels: one for the backend, and one for tensors without data.

        They replace kernels that are registered, such as those of an installation that failed.
        """
        with warnings.catch_warnings():  # "Overriding a previously registered kernel"
            warnings.simplefilter("ignore")
            _library.impl("forward", self._results_without_data, "Meta", allow_override=True)
            _library.impl("backward", self._gradients_without_data, "Meta", allow_override=True)
            return (
                dispatching.implement("forward", self._forward),
                dispatching.implement("backward", self._backward),
            )

    def _forward(
        self, operands: Sequence[Tensor | None], composite: str, call: int
    ) -> list[Tensor]:
        return list(self._calls[call].forward(operands))

    def _results_without_data(self, operands: Any, composite: str, call: int) -> list[Tensor]:
        return list(map(meta_tensor, self._calls[call].computation.types))

    def _backward(
        self,
        grads: Sequence[Tensor | None],
        kept: Sequence[Tensor | None],
        output_mask: Sequence[bool],
        composite: str,
        call: int,
    ) -> list[Tensor]:
        gradients = self._calls[call].backward(grads, kept, output_mask)
        return [gradient for gradient in gradients if gradient is not None]

    def _gradients_without_data(
        self, grads: Any, kept: Any, output_mask: Sequence[bool], composite: str, call: int
    ) -> list[Tensor]:
        types = zip(self._calls[call].types, output_mask, strict=True)
        return [meta_tensor(type_) for type_, asked in types if type_ is not None and asked]
