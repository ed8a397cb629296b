"""Calls whose arrays have dimensions in another order than those of the composite.

The operands are the caller's arrays all the same, and what transposes them is part of the call: JAX
then adds gradients to those of their other uses as it does in the program without composites.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from typing import Any

import jax

from lowering.frontends.jax.composite_call import Kind, Layout, inverse, trace
from lowering.jax_entries.caught_calls import CaughtCall
from lowering.jax_entries.pulling import Arrays


@dataclass(frozen=True, eq=False)
class LaidOutCall:
    """All that equal calls of this form have in common. It is what `Rules` describes."""

    call: CaughtCall
    """The call of arrays as the composite has them."""
    layout: Layout
    """Of the operands that are present, in the composite's order, and of the results."""
    function: Arrays
    """The JAX function, of the caller's arrays in the composite's order."""

    @property
    def order(self) -> tuple[int, ...]:
        """See `Call`."""
        return self.call.order

    @cached_property
    def kind(self) -> Kind:
        """The composite, with what transposes its operands and results."""
        inner = self.call.kind
        types = [
            ordered_type(aval, inverse(order))
            for aval, order in zip(inner.jaxpr.in_avals, self.layout.operands, strict=True)
        ]
        return Kind(
            inner.name,
            inner.version,
            inner.attributes,
            trace(self.function, types),
            self,
            self.function,
            (inner, self.layout),
        )

    def differentiable(self, wanted: tuple[bool, ...]) -> Kind | None:
        """See `Rules`."""
        return self.kind if self.call.differentiable(wanted) is self.call.kind else None

    def pull_back(
        self,
        operands: Sequence[Any],
        results: Sequence[Any],
        grads: Sequence[Any | None],
        wanted: tuple[bool, ...],
    ) -> list[Any]:
        """See `Rules`."""
        layout = self.layout
        found = self.call.pull_back(
            layout.into(operands, layout.operands),
            layout.into(results, layout.results),
            layout.into(grads, layout.results),
            wanted,
        )
        return layout.out_of(found, tuple(compress(layout.operands, wanted)))

    def batched(self, size: int, axes: tuple[int | None, ...]) -> tuple[Kind, bool] | None:
        """See `Rules`."""
        return None


def ordered_type(type_: Any, order: tuple[int, ...] | None) -> Any:
    """The type of an array with its dimensions in another order."""
    shape = type_.shape if order is None else tuple(type_.shape[n] for n in order)
    return jax.ShapeDtypeStruct(shape, type_.dtype)
