"""The graph that is recorded, traced decompositions, and the composites inserted into the graph."""

from collections.abc import Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch

from composites import torch_internals
from composites.contexts import with_attributes
from composites.errors import UnsupportedCallError
from lowering.emission.types import TensorType
from lowering.frontends.aten_in_jax.dtypes import torch_dtype
from lowering.frontends.aten_in_jax.table import RULES
from lowering.frontends.fx import capture
from lowering.frontends.fx.sizes import in_pytorch, vary
from lowering.frontends.jax.composite_call import Kind, bind, reads
from lowering.frontends.jax.internals import has_own_sizes, results_for
from lowering.frontends.protocols import EmittedComposite
from lowering.frontends.tensor_types import DTYPE_OF, ELEMENT_TYPE_OF
from lowering.frontends.thread_flag import ThreadFlag
from lowering.stablehlo.run import enable_x64


@dataclass(frozen=True, slots=True, eq=False)
class FxDecomposition:
    """See `lowering.frontends.protocols.TracedFunction`."""

    jaxpr: Any
    """A closed jaxpr without constants, of all present operands and, if it takes the random number
    generator's state, of that."""
    draws: int = 0
    takes_state: bool = False
    graph: torch.fx.Graph | None = None
    """The same function in PyTorch's operators; see `lowering.frontends.fx.aten_graph`."""

    def reads(self) -> tuple[bool, ...]:
        with enable_x64():
            read = reads(self.jaxpr)
        return tuple(read[:-1] if self.takes_state else read)


@dataclass(frozen=True, slots=True)
class FxComposite:
    """A composite that can be inserted into graphs."""

    kind: Kind
    results: tuple[TensorType, ...]
    decomposition: FxDecomposition


class FxGraph:
    """See `lowering.frontends.protocols.Graph`."""

    device = "CPU"  # lowerings that depend on the device run on torch_xla only
    runs = False

    def __init__(self) -> None:
        self.is_shared = False
        self.tracing = ThreadFlag()
        """True while this thread is tracing a decomposition."""

    @property
    def is_decomposition(self) -> bool:
        return self.tracing.active

    @property
    def target(self) -> Hashable:
        return self.tracing.active, self.is_shared

    @staticmethod
    def composite(
        name: str,
        version: int,
        attributes: Mapping[str, str | None],
        operands: Sequence[TensorType],
        decomposition: FxDecomposition,
    ) -> EmittedComposite:
        """See `lowering.frontends.protocols.Graph`."""
        written = tuple((key, text) for key, text in attributes.items() if text is not None)
        with enable_x64():  # a kind is lowered under the settings that it was made with
            if vary() and not has_own_sizes(decomposition.jaxpr):
                raise UnsupportedCallError("it depends on a size that no operand has")
            kind = Kind(name, version, written, decomposition.jaxpr, symbolic_too=True)
            results = tuple(
                TensorType(ELEMENT_TYPE_OF[torch_dtype(aval.dtype)], tuple(aval.shape))
                for aval in results_for(decomposition.jaxpr, [type_.shape for type_ in operands])
            )
        return EmittedComposite(FxComposite(kind, results, decomposition), results)

    @staticmethod
    def insert(
        symbol: str, operands: Sequence[torch.Tensor], composite: FxComposite
    ) -> Sequence[torch.Tensor]:
        """See `lowering.frontends.protocols.Graph`."""
        traced = [capture.traced(operand) for operand in operands]
        described = [
            torch.empty(in_pytorch(type_.shape), dtype=DTYPE_OF[type_.element_type], device="meta")
            for type_ in composite.results
        ]
        results = capture.node(call_composite, (traced, composite), {}, described, symbol)
        below = any(isinstance(operand, capture.TracedTensor) for operand in operands)
        return list(results) if below else list(map(torch_internals.functional, results))

    insert_several = insert

    def recorded(self, *, shared: bool) -> AbstractContextManager[None]:
        """A context in which graphs are recorded, for several devices if `shared`."""
        return with_attributes(self, is_shared=shared)


def call_composite(dtypes: Any, /, operands: Sequence[Any], composite: FxComposite) -> list[Any]:
    """One call of a composite, as a rule of `lowering.frontends.aten_in_jax`."""
    return bind(composite.kind, operands)


RULES[call_composite] = call_composite
