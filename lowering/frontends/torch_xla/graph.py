"""The graph that torch_xla builds: its target, and the computations inserted into it."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import torch
import torch_xla
from torch_xla import runtime

from composites.contexts import with_attributes
from lowering.emission.composite import emit_composite
from lowering.emission.types import SEED_TYPE, DecompositionHlo, TensorType
from lowering.frontends.protocols import EmittedComposite
from lowering.frontends.thread_flag import ThreadFlag

_XLAC = torch_xla._XLAC


class Purpose(NamedTuple):
    """The purpose of a graph; a named tuple, which is hashed quickly, because every call looks up
    its computation by it."""

    device: str | None
    """The device that runs the graph: `CPU`, `CUDA`, …; None for a recorded graph."""
    inside: bool
    """True if the graph becomes part of a decomposition."""
    shared: bool = False
    """True if the graph is recorded for several devices."""


class XlaGraph:
    """See `lowering.frontends.protocols.Graph`."""

    # This is called for every composite, so no wrapper function is used.
    insert = staticmethod(_XLAC._xla_user_computation)
    computation = staticmethod(_XLAC._xla_op_computation_from_module_proto)
    """A handle for an HLO module, which `insert` takes: `computation(name, module)`."""

    @staticmethod
    def insert_several(
        symbol: str, operands: Sequence[torch.Tensor], computation: Any
    ) -> Sequence[torch.Tensor]:
        """See `lowering.frontends.protocols.Graph`.

        In torch_xla's eager mode, `_xla_user_computation` would execute the computation once for
        each result (2.9). Stock kernels with several results execute once.
        """
        if not _XLAC._get_use_eager_mode():
            return _XLAC._xla_user_computation(symbol, operands, computation)  # type: ignore[no-any-return]
        _XLAC._set_use_eager_mode(False)
        try:
            results = _XLAC._xla_user_computation(symbol, operands, computation)
        finally:
            _XLAC._set_use_eager_mode(True)
        _XLAC._xla_sync_multi(list(results), [], wait=False, sync_xla_data=True)
        return results  # type: ignore[no-any-return]

    def __init__(self) -> None:
        self.device = runtime.device_type() or "CPU"
        self.is_recorded = False
        """True while a program is being recorded. This applies to all threads, because autograd
        runs the backward of a recorded program in other threads."""
        self.is_recorded_to_share = False
        """True if the program that is being recorded is for several devices."""
        self.tracing = ThreadFlag()
        """True while this thread is tracing a decomposition."""

    @property
    def is_decomposition(self) -> bool:
        return self.tracing.active

    @property
    def target(self) -> Purpose:
        device = None if self.is_recorded else self.device
        return Purpose(device, self.tracing.active, self.is_recorded_to_share)

    @property
    def guards_products(self) -> bool:
        """True if the graph's compiler needs a barrier after a product whose result is wider than
        its operands: XLA:CPU compiles the graph as it is."""
        return self.target == Purpose("CPU", inside=False)

    @property
    def is_shared(self) -> bool:
        return self.is_recorded_to_share if self.is_recorded else runtime.is_spmd()

    @property
    def runs(self) -> bool:
        return not self.is_recorded

    def composite(
        self,
        name: str,
        version: int,
        attributes: Mapping[str, str | None],
        operands: Sequence[TensorType],
        decomposition: DecompositionHlo,
    ) -> EmittedComposite:
        """See `lowering.frontends.protocols.Graph`."""
        emitted = emit_composite(
            name,
            version,
            attributes,
            operands if decomposition.seed is None else [*operands, SEED_TYPE],
            decomposition,
            guard_products=self.guards_products,
            # XLA:CPU leaves out the rounding of a product to a narrow type if the next instruction
            # widens the product.
            keep_roundings=self.target.device == "CPU",
            is_shared=self.is_shared,
            # A mode that changes later does not change the composite.
            is_partitioned=self.is_recorded or runtime.is_spmd(),
        )
        return EmittedComposite(self.computation(name, emitted.module), emitted.results)

    def recorded(self, *, shared: bool) -> AbstractContextManager[None]:
        """A context in which graphs are recorded, for several devices if `shared`."""
        return with_attributes(self, is_recorded=True, is_recorded_to_share=shared)


def graph_hlo(tensors: Sequence[torch.Tensor]) -> bytes:
    """The graph that computes `tensors` as a serialized HLO module, before any XLA pass."""
    return _XLAC._get_xla_tensors_hlo_proto(list(tensors))  # type: ignore[no-any-return]


def lowered(name: str, outputs: Sequence[torch.Tensor]) -> Any:
    """A LoweringContext of torch_xla that has lowered the graph of `outputs` to HLO.

    Raises:
        ValueError: `outputs` is empty; torch_xla (2.9) would read past the end of its instructions.
    """
    if not outputs:
        raise ValueError("it returns no tensor")
    context = _XLAC.lowering.LoweringContext(name)
    context.build(list(outputs))
    return context
