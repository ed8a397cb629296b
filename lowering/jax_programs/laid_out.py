"""Calls whose arrays have their dimensions in another order than the composite's.

The operands are still the caller's arrays, and the transposition is part of the call: JAX then adds
gradients to those of their other uses as it does in the program without composites.
"""

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
from lowering.jax_entries.calls import EntryCall
from lowering.jax_entries.computed_once import computed_once
from lowering.jax_programs.pulling import Arrays


@dataclass(frozen=True, eq=False)
class LaidOutCall:
    """The properties that equal calls of this form share, as `Rules` describes them."""

    call: EntryCall
    """The call of arrays as the composite has them."""
    layout: Layout
    """The layout of the operands that are present, in the composite's order, and of the results."""
    function: Arrays
    """The JAX function, of the caller's arrays in the composite's order."""

    @property
    def order(self) -> tuple[int, ...]:
        """See `EntryCall`."""
        return self.call.order

    @property
    @computed_once
    def kind(self) -> Kind:
        """The composite, with the transpositions of its operands and results."""
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

    def differentiable(self, needed: tuple[bool, ...]) -> Kind | None:
        """See `Rules`. The order of further results is not known."""
        return self.kind if self.call.differentiable(needed) is self.call.kind else None

    def pull_back(self, cts: Cotangents) -> list[Any]:
        """See `Rules`."""
        layout = self.layout
        gradients = self.call.pull_back(
            Cotangents(
                layout.into(cts.operands, layout.operands),
                layout.into(cts.results, layout.results),
                layout.into(cts.grads, layout.results),
                cts.needed,
            )
        )
        return layout.out_of(gradients, tuple(compress(layout.operands, cts.needed)))

    def batched(self, size: int, axes: tuple[int | None, ...]) -> tuple[Kind, bool] | None:
        """See `Rules`."""
        return None


def ordered_type(type_: Any, order: Order) -> Any:
    """The type of an array with its dimensions in another order."""
    plain = jax.ShapeDtypeStruct(type_.shape, type_.dtype)
    return jax.eval_shape(partial(ordered, order=order), plain)
