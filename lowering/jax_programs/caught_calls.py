"""One kind of call of a JAX function that an entry catches.

Name, version, operands and attributes are those of the entry. The decomposition is the JAX function
itself, and the backward's decomposition is JAX's derivative of that function, so that a program
computes the same bits with the composite and without it. The entry's own decomposition is traced
only to compare the types of results, and the call under `jax.vmap`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax.extend.core import jaxpr_as_fun

from composites.errors import InvalidCallError, LoweringError, UnsupportedCallError
from lowering.frontends.jax.composite_call import (
    Cotangents,
    Kind,
    Layout,
    Merged,
    Order,
    bind,
    trace,
)
from lowering.jax_entries import meaning
from lowering.jax_entries.arguments import build_signature, split_arrays
from lowering.jax_entries.calls import (
    Axes,
    BackwardRules,
    EntryCall,
    Made,
    Source,
    Types,
    has_meaning,
    strong,
    strong_or_none,
    texts,
    wider,
    written,
)
from lowering.jax_entries.computed_once import computed_once
from lowering.jax_entries.definition import Definition
from lowering.jax_entries.surroundings import without_composites
from lowering.jax_programs.laid_out import LaidOutCall, ordered_type
from lowering.jax_programs.pulling import Arrays, NotExpressible, pulled_back

Many = Literal["merged", "stacked"]
"""The form of many calls in one: `merged` in the first dimension of all arrays, whose elements are
computed independently, or `stacked` in a new first dimension of all arrays."""


class _PlainCall(EntryCall):
    """A call whose decomposition has no composites inside. A decomposition may call the
    function that its entry catches."""

    def _lowered(self, make: Callable[..., Made], /, *arguments: Any, **keywords: Any) -> Made:
        with without_composites():
            return super()._lowered(make, *arguments, **keywords)


@dataclass(frozen=True, eq=False, kw_only=True)
class CaughtCall(_PlainCall):
    """The properties that equal calls of a JAX function share."""

    function: Arrays
    """The JAX function, of the operands that are present, in the composite's order."""
    has_backward: bool = True
    """True if the entry's backward means the same as JAX's derivative."""
    many: Many | None = None
    """The way in which one composite can stand for many calls; None if it cannot."""

    @property
    @computed_once
    def _reference(self) -> EntryCall:
        """The entry's own call with these arguments."""
        return _PlainCall(self.definition, self.values, self.arrays, self.invoke)

    def check(self) -> None:
        """Check that the entry supports the call.

        Raises:
            UnsupportedCallError: the entry does not support it.
        """
        if self.unmet is not None:
            raise UnsupportedCallError(self.unmet)
        if len(self.order) != len(self.arrays):
            raise UnsupportedCallError("an array is not an operand of the composite")
        try:
            expected = self._reference.kind.jaxpr.out_avals
        except LoweringError as error:
            raise UnsupportedCallError(str(error)) from error
        actual = self.kind.jaxpr.out_avals
        if any(aval.weak_type for aval in actual):
            raise UnsupportedCallError("a result has the type of a number")
        if list(map(_typed, actual)) != list(map(_typed, expected)):
            both = "; ".join(", ".join(map(written, avals)) for avals in (actual, expected))
            raise UnsupportedCallError(f"results are not those of the entry: {both}")

    # ---- the forward ----

    @property
    def _meaning(self) -> tuple[Any, Any]:
        return self.function, list

    @property
    @computed_once
    def saving(self) -> Kind:
        count = len(self.definition.entry.saved)
        if not count:
            return self.kind
        own, _ = self._lowered(meaning.forward, self.definition, self.spec, self._types, saved=True)
        # Traced, to leave out the operations of other results even without jax.jit.
        further = self._lowered(trace, lambda *arrays: own(*arrays)[-count:], self._present)

        def function(*arrays: Any) -> list[Any]:
            with without_composites():
                return [*self.function(*arrays), *jaxpr_as_fun(further)(*arrays)]

        return replace(self._kind(function), rules=None)

    def _kind(self, function: Callable[..., Any]) -> Kind:
        return replace(super()._kind(function), uncompiled=function)

    # ---- Rules: derivatives ----

    def differentiable(self, needed: tuple[bool, ...]) -> Kind | None:
        """See `Rules`."""
        return super().differentiable(needed) if self.has_backward else None

    def pull_back(self, cts: Cotangents) -> list[Any]:
        """See `Rules`."""
        try:
            if self.definition.backward is None:
                return self._derived(cts)
        except NotExpressible:
            return self._transposed(cts)
        composite = self.operator_backward(tuple(map(strong_or_none, cts.grads)), cts.needed)
        if composite is None:
            return self._transposed(cts)
        kind, sources = composite
        by_kind = {"grad": cts.present, "operand": cts.operands, "result": cts.results}
        return bind(kind, [by_kind[source.kind][source.number] for source in sources])

    @computed_once
    def backward_kind(self, grads: Types, needed: tuple[bool, ...], saved: Types) -> Kind:
        """See `EntryCall`."""
        sources = self._sources(grads, saved)
        function = self._lowered(pulled_back, self.function, self._present, grads, needed, sources)
        return replace(self._backward_kind(function, grads, needed, saved), uncompiled=function)

    @computed_once
    def operator_backward(
        self, grads: Types, needed: tuple[bool, ...]
    ) -> tuple[Kind, tuple[Source, ...]] | None:
        """The composite of the operator that PyTorch's autograd calls, and the sources of its
        operands; None if autograd calls other operators too, or JAX's derivative reads other
        values."""
        backward = self.definition.backward
        if backward is None or backward.entry.op is None:
            return None
        try:
            with without_composites():
                return self._operator_backward(backward, grads, needed)
        except NotExpressible:
            return None

    def _operator_backward(
        self, backward: Definition, grads: Types, needed: tuple[bool, ...]
    ) -> tuple[Kind, tuple[Source, ...]] | None:
        named, arrays, array_sources = self._autograd_call(backward, grads, needed)
        types = tuple(map(strong, arrays))
        call = EntryCall(backward, named, types, self.invoke)
        if call.unmet is not None or len(call.order) != len(arrays):
            return None
        sources = tuple(array_sources[n] for n in call.order)
        function = self._lowered(pulled_back, self.function, self._present, grads, needed, sources)
        present = [types[n] for n in call.order]

        def make(forward: EntryCall, grads: Types, saved: Types) -> Kind | None:
            assert isinstance(forward, CaughtCall)
            composite = forward.operator_backward(grads, needed)
            return composite[0] if composite is not None and composite[1] == sources else None

        kind = Kind(
            backward.entry.composite_name,
            backward.entry.version,
            texts(call._attributes),
            self._lowered(trace, function, present),
            BackwardRules(self, grads, (), sources, make),
            function,
        )
        return kind, sources

    def _autograd_call(
        self, backward: Definition, grads: Types, needed: tuple[bool, ...]
    ) -> tuple[dict[str, Any], list[Any], list[Source]]:
        """The arguments with which autograd calls the backward, its arrays, and their sources."""
        after = self.operator_after(backward, grads, needed)
        calls: list[tuple[dict[str, Any], list[Any], list[Source]]] = []
        count, types = len(self._present), [grad for grad in grads if grad is not None]

        def run(*arrays: Any) -> Any:
            operands, cotangents = arrays[:count], arrays[count : count + len(types)]
            results = arrays[count + len(types) :]
            sources: dict[int, Source] = {}
            groups = (("grad", cotangents), ("operand", operands), ("result", results))
            for kind, group in groups:
                for n, array in enumerate(group):
                    sources.setdefault(id(array), Source(kind, n))  # type: ignore[arg-type]
            claimed: list[Any] = []

            def called(*arguments: Any, **keywords: Any) -> Any:
                names = list(build_signature(backward).parameters)
                bound = dict(zip(names, arguments, strict=False)) | keywords
                full = build_signature(backward).bind(**bound)
                full.apply_defaults()
                named, passed = split_arrays(backward, full.arguments)
                leaves = jax.tree.leaves(list(full.arguments.values()))
                leaves = [leaf for leaf in leaves if isinstance(leaf, jax.Array)]
                if len(leaves) != len(passed) or any(id(array) not in sources for array in leaves):
                    raise NotExpressible("autograd does not only call the entry's backward")
                calls.append((named, list(map(strong, passed)), [sources[id(a)] for a in leaves]))
                claimed.append(self.invoke(backward, full.arguments))
                return claimed[-1]

            gradients = after(called, *cotangents, *operands, *results)
            listed = jax.tree.leaves(claimed[0]) if len(claimed) == 1 else []
            if len(listed) != len(gradients) or any(
                a is not b for a, b in zip(listed, gradients, strict=True)
            ):
                raise NotExpressible("autograd does not only call the entry's backward")
            return gradients

        results = [
            jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in self.kind.jaxpr.out_avals
        ]
        jax.eval_shape(run, *self._present, *types, *results)
        return calls[0]

    # ---- Rules: vmap ----

    @computed_once
    def batched(self, size: int, axes: Axes) -> tuple[Kind, bool] | None:
        """See `Rules`."""
        batched = super().batched(size, axes)
        if batched is not None or self.many is None or self.kind.jaxpr.effects:
            return batched
        shared = [t for t, axis in zip(self._present, axes, strict=True) if axis is None]
        if any(jnp.issubdtype(type_.dtype, jnp.floating) for type_ in shared):
            return None  # JAX sums their gradients within products
        call = self._all_at_once(size, self.many)
        return None if call is None else (call.kind, True)

    def _all_at_once(self, size: int, many: Many) -> LaidOutCall | None:
        """The call that stands for calls with one more dimension at the front of all operands."""
        if len({type_.shape[:1] for type_ in self.arrays}) > 1 and many == "merged":
            return None  # an operand is shared by all calls
        order: Order = Merged(size) if many == "merged" else None
        layout = Layout((order,) * len(self.order), (order,) * len(self.kind.jaxpr.out_avals))
        function = jax.vmap(self.function, axis_size=size)

        def inside(*operands: Any) -> list[Any]:
            results = function(*layout.out_of(operands, layout.operands))
            return layout.into(results, layout.results)

        arrays = tuple(ordered_type(wider(type_, size), order) for type_ in self.arrays)
        call = CaughtCall(
            self.definition, self.values, arrays, self.invoke,
            function=inside, has_backward=self.has_backward,
        )  # fmt: skip
        try:
            call.check()
        except (UnsupportedCallError, LoweringError, InvalidCallError):
            return None
        return LaidOutCall(call, layout, function, (order,))

    @computed_once
    def moved(self, size: int, axes: Axes) -> "CaughtCall | None":
        """The call with batched operands, if the entry's own call can also be batched."""
        reference = self._reference
        moved = reference.moved(size, axes)
        if moved is None or not has_meaning(moved.kind, reference.kind, size, axes):
            return None
        return CaughtCall(
            self.definition,
            moved.values,
            moved.arrays,
            self.invoke,
            function=jax.vmap(self.function, in_axes=tuple(axes), axis_size=size),
            has_backward=self.has_backward,
        )


def _typed(aval: Any) -> tuple[Any, ...]:
    return (tuple(aval.shape), aval.dtype)
