"""Calls whose arrays differ from the composite's: dimensions in another order, or the arrays of
many calls in one.

The operands are the caller's arrays, and the change of their form is part of the call. JAX then
adds up the gradients of all uses of an array as in the program without composites.
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
    Split,
    inverse,
    ordered,
    trace,
)
from lowering.jax_entries.calls import EntryCall
from lowering.jax_entries.computed_once import computed_once
from lowering.jax_programs.pulling import Arrays


@dataclass(frozen=True, eq=False)
class LaidOutCall:
    """The properties that equal calls of this form share; see `Rules`."""

    call: EntryCall
    """The call on arrays in the composite's form."""
    layout: Layout
    """The layout of the operands that are present, in the composite's order, and of the results."""
    function: Arrays
    """The JAX function, of the caller's arrays in the composite's order."""
    further: tuple[Order] | None = None
    """The form of each further result, which the backward takes; None if it is unknown."""

    @property
    def order(self) -> tuple[int, ...]:
        """See `EntryCall`."""
        return self.call.order

    @property
    @computed_once
    def kind(self) -> Kind:
        """The composite, with the changes of form of its operands and results."""
        return self._around(self.call.kind, self.layout, self.function, self)

    def _around(self, inner: Kind, layout: Layout, function: Arrays, rules: Any) -> Kind:
        types = [
            ordered_type(aval, inverse(order))
            for aval, order in zip(inner.jaxpr.in_avals, layout.operands, strict=True)
        ]
        return Kind(
            inner.name,
            inner.version,
            inner.attributes,
            trace(function, types),
            rules,
            function,
            (inner, layout),
        )

    def differentiable(self, needed: tuple[bool, ...]) -> Kind | None:
        """See `Rules`."""
        kind = self.call.differentiable(needed)
        if kind is None:
            return None
        return self.kind if kind is self.call.kind else self._saving

    @property
    @computed_once
    def _saved_orders(self) -> tuple[Order, ...]:
        """The orders of results and further results."""
        count = len(self.call.saving.jaxpr.out_avals) - len(self.layout.results)
        return (*self.layout.results, *(self.further or ()) * count)

    @property
    @computed_once
    def _saving(self) -> Kind | None:
        if self.further is None:
            return None
        inner = self.call.saving
        layout = Layout(self.layout.operands, self._saved_orders)

        def function(*operands: Any) -> list[Any]:
            assert inner.uncompiled is not None
            results = inner.uncompiled(*layout.into(operands, layout.operands))
            return layout.out_of(results, layout.results)

        return self._around(inner, layout, function, None)

    def pull_back(self, cts: Cotangents) -> list[Any]:
        """See `Rules`."""
        layout = self.layout
        gradients = self.call.pull_back(
            Cotangents(
                layout.into(cts.operands, layout.operands),
                layout.into(cts.results, self._saved_orders[: len(cts.results)]),
                layout.into(cts.grads, layout.results),
                cts.needed,
            )
        )
        return layout.out_of(gradients, tuple(compress(layout.operands, cts.needed)))

    def batched(self, size: int, axes: tuple[int | None, ...]) -> tuple[Kind, bool] | None:
        """See `Rules`."""
        return None


def ordered_type(type_: Any, order: Order | Split) -> Any:
    """The type of an array in another form."""
    plain = jax.ShapeDtypeStruct(type_.shape, type_.dtype)
    return jax.eval_shape(partial(ordered, order=order), plain)
