"""Calls whose arrays have another form than those of the composite: dimensions in another order.

The operands are the caller's arrays all the same, and what changes their form is part of the call:
JAX then adds gradients to those of their other uses as it does in the program without composites.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import compress
from typing import Any

import jax

from lowering.frontends.jax.composite_call import (
    Cotangents,
    Kind,
    Layout,
    Order,
    inverse,
    ordered,
    trace,
)
from lowering.jax_entries.calls import Call
from lowering.jax_entries.lock_free_property import lock_free_property
from lowering.jax_programs.pulling import Arrays


@dataclass(frozen=True, eq=False)
class LaidOutCall:
    """All that equal calls of this form have in common. It is what `Rules` describes."""

    call: Call
    """The call of arrays as the composite has them."""
    layout: Layout
    """Of the operands that are present, in the composite's order, and of the results."""
    function: Arrays
    """The JAX function, of the caller's arrays in the composite's order."""

    @property
    def order(self) -> tuple[int, ...]:
        """See `Call`."""
        return self.call.order

    @lock_free_property
    def kind(self) -> Kind:
        """The composite, with what changes the form of its operands and results."""
        inner, layout = self.call.kind, self.layout
        types = [
            ordered_type(aval, inverse(order))
            for aval, order in zip(inner.jaxpr.in_avals, layout.operands, strict=True)
        ]
        return Kind(
            inner.name,
            inner.version,
            inner.attributes,
            trace(self.function, types),
            self,
            self.function,
            (inner, layout),
        )

    def differentiable(self, wanted: tuple[bool, ...]) -> Kind | None:
        """See `Rules`."""
        found = self.call.differentiable(wanted)
        # The form of further results is not known.
        return self.kind if found is self.call.kind else None

    def pull_back(self, given: Cotangents) -> list[Any]:
        """See `Rules`."""
        layout = self.layout
        found = self.call.pull_back(
            Cotangents(
                layout.into(given.operands, layout.operands),
                layout.into(given.results, layout.results),
                layout.into(given.grads, layout.results),
                given.wanted,
            )
        )
        return layout.out_of(found, tuple(compress(layout.operands, given.wanted)))

    def batched(self, size: int, axes: tuple[int | None, ...]) -> tuple[Kind, bool] | None:
        """See `Rules`."""
        return None


def ordered_type(type_: Any, order: Order) -> Any:
    """The type of an array in another form."""
    plain = jax.ShapeDtypeStruct(type_.shape, type_.dtype)
    return jax.eval_shape(partial(ordered, order=order), plain)
