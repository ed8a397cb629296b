"""A traced decomposition: a function of JAX arrays."""

from dataclasses import dataclass, replace
from typing import Any

import torch

from lowering.frontends.fx.aten_graph import without_operands as without_placeholders
from lowering.frontends.jax.composite_call import reads
from lowering.frontends.jax.internals import without_operands
from lowering.stablehlo.run import enable_x64


@dataclass(frozen=True, slots=True, eq=False)
class FxDecomposition:
    """See `lowering.frontends.protocols.TracedFunction`."""

    jaxpr: Any
    """A closed jaxpr without constants, of all present operands and, if it draws random numbers, of
    the generator's state."""
    draws: int = 0
    graph: torch.fx.Graph | None = None
    """The same function in PyTorch's operators; see `lowering.frontends.fx.aten_graph`."""

    def reads(self) -> tuple[bool, ...]:
        with enable_x64():
            read = reads(self.jaxpr)
        return tuple(read[:-1] if self.draws else read)

    def without_last(self, count: int) -> "FxDecomposition | None":
        kept = len(self.jaxpr.in_avals) - count - bool(self.draws)
        jaxpr = without_operands(self.jaxpr, kept, count)
        if jaxpr is None:
            return None
        return replace(self, jaxpr=jaxpr, graph=without_placeholders(self.graph, count))
