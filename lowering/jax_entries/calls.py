"""One kind of call of an entry: its composite, its backward, and its rule for vmap."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, Literal, TypeVar

import jax
import jax.numpy as jnp

from composites import attribute_types
from composites.attribute_types import UnsupportedValueError
from composites.errors import InvalidCallError, LoweringError, UnsupportedCallError
from composites.registry.operators import overload
from composites.user_code import described
from lowering.dispatch.backward import (
    BackwardSpec,
    gradients_by_name,
    gradients_by_operand,
    taken_by_derived,
)
from lowering.dispatch.call import CallSpec
from lowering.dispatch.reads import Key
from lowering.frontends.jax.composite_call import (
    Cotangents,
    Kind,
    bind,
    is_symbolic,
    on_selected,
    reads,
    trace,
)
from lowering.frontends.jax.internals import vary_alike
from lowering.jax_entries import meaning
from lowering.jax_entries.arguments import Slot, rebuilt
from lowering.jax_entries.computed_once import computed_once
from lowering.jax_entries.definition import Definition
from lowering.jax_entries.traced import depends_on, is_same

Made = TypeVar("Made")

Types = tuple[Any | None, ...]
"""The types of arrays; None for absent arrays."""
Axes = tuple[int | None, ...]
"""For each operand, 0 if it has one more dimension at the front, which counts calls."""
Invoke = Callable[[Definition, Mapping[str, Any]], Any]
"""Calls another entry, with its arguments by name."""


@dataclass(frozen=True, slots=True)
class Source:
    """The source of an operand of a backward."""

    kind: Literal["grad", "operand", "result", "further"]
    """The kind of the source. JAX's derivative does not read an array of the kind `further`."""
    number: int


@dataclass(frozen=True, eq=False)
class EntryCall:
    """The calls of an entry with equal arguments, and arrays of equal types.

    It implements `Rules`.
    """

    definition: Definition
    values: Mapping[str, Any]
    """The arguments by name, with a `Slot` in the place of each array."""
    arrays: tuple[Any, ...]
    """The types of the arrays."""
    invoke: Invoke
    reads: Key = ()
    """The values that a function under the decorator reads from outside."""

    # ---- the call as the entry reads it ----

    @property
    @computed_once
    def _read(self) -> tuple[CallSpec, tuple[int | None, ...]]:
        """The call as its entry reads it, with stand-ins for the arrays, and for each operand its
        number among the arrays."""
        numbers: dict[int, int] = {}
        tensors = []
        for number, type_ in enumerate(self.arrays):
            tensors.append(meaning.stand_in(type_))
            numbers[id(tensors[-1])] = number

        def tensor(value: Any) -> Any:
            if isinstance(value, list | tuple):
                return rebuilt(value, [tensor(item) for item in value])
            return tensors[value.number] if isinstance(value, Slot) else value

        named = {name: tensor(value) for name, value in self.values.items()}
        spec = CallSpec.from_named(self.definition.form, named).flat()
        positions = tuple(None if t is None else numbers.get(id(t)) for t in spec.operands)
        return spec, positions

    @property
    def spec(self) -> CallSpec:
        return self._read[0]

    @property
    def order(self) -> tuple[int, ...]:
        """For each operand that is present, its number among the arrays."""
        return tuple(position for position in self._read[1] if position is not None)

    @property
    def _types(self) -> Types:
        """The type of each operand; None for an absent operand."""
        return tuple(None if n is None else self.arrays[n] for n in self._read[1])

    @property
    def _present(self) -> list[Any]:
        return [type_ for type_ in self._types if type_ is not None]

    @property
    @computed_once
    def unmet(self) -> str | None:
        """The reason why the call is not a composite; None if it is a composite."""
        spec, positions = self._read
        missing = zip(spec.operands, positions, strict=True)
        if any(operand is not None and position is None for operand, position in missing):
            return "an operand is not an array"
        unmet = spec.unmet()
        if unmet is not None:
            return unmet
        if self.definition.entry.when.where and any(map(is_symbolic, self.arrays)):
            return "a condition cannot be evaluated for sizes that are symbols"
        try:
            self._attributes  # noqa: B018
        except UnsupportedValueError as error:
            return str(error)
        return None

    @property
    @computed_once
    def _attributes(self) -> Mapping[str, str | None]:
        return self.spec.attributes()

    # ---- the forward ----

    @property
    @computed_once
    def _meaning(self) -> tuple[Any, Any]:
        return self._lowered(meaning.forward, self.definition, self.spec, self._types, saved=False)

    @property
    def is_claimed(self) -> bool:
        """True if the call is a composite. As with torch_xla, a call that omits results is not."""
        return self.unmet is None and all(self._meaning[1].present)

    def decomposed(self, operands: Sequence[Any]) -> Any:
        """The results of the decomposition itself, in the structure that the caller expects."""
        function, structure = self._meaning
        return structure(self._lowered(function, *operands))

    def composite(self, operands: Sequence[Any]) -> Any:
        """The results of the composite, in the structure that the caller expects."""
        return self._meaning[1](bind(self.kind, operands))

    @property
    @computed_once
    def kind(self) -> Kind:
        """The composite."""
        return self._kind(self._meaning[0])

    @property
    @computed_once
    def saving(self) -> Kind:
        """The composite with the further results of `saves`."""
        if not self.definition.entry.saved:
            return self.kind
        function, _ = self._lowered(
            meaning.forward, self.definition, self.spec, self._types, saved=True
        )
        return replace(self._kind(function), rules=None)

    def _kind(self, function: Callable[..., Any]) -> Kind:
        entry = self.definition.entry
        jaxpr = self._lowered(trace, function, self._present)
        return Kind(entry.composite_name, entry.version, texts(self._attributes), jaxpr, self)

    def _lowered(self, make: Callable[..., Made], /, *arguments: Any, **keywords: Any) -> Made:
        """The result of a function that traces or runs the decomposition.

        Raises:
            LoweringError: the decomposition fails for these arguments, or values that it reads from
                outside have changed since the call.
        """
        entry, reads = self.definition.entry, self.definition.reads
        if reads is not None:
            reads.check(self.reads, f"{entry.location}: {entry.qualified}")
        try:
            return make(*arguments, **keywords)
        except (LoweringError, InvalidCallError):
            raise
        except UnsupportedCallError as error:
            raise LoweringError(
                f"{entry.location}: {entry.qualified} is not available in JAX: {error}"
            ) from error
        except Exception as error:
            types = ", ".join("None" if t is None else written(t) for t in self._types)
            raise LoweringError(
                f"{entry.location}: {entry.qualified}: decomposition {entry.decomposition} failed"
                f" for {types}: {described(error)}"
            ) from error

    # ---- Rules: derivatives ----

    def differentiable(self, needed: tuple[bool, ...]) -> Kind | None:
        """See `Rules`."""
        entry, backward = self.definition.entry, self.definition.backward
        if entry.derives:
            return self.saving
        if backward is None:
            return None
        if not backward.entry.gradients:
            return self.kind
        listed = frozenset(backward.entry.gradients)
        requested = compress(self.spec.names(), self._whole(needed))
        return self.kind if listed.issuperset(requested) else None

    def pull_back(self, cts: Cotangents) -> list[Any]:
        """See `Rules`."""
        backward = self.definition.backward
        constant = self._constant_results(cts.needed)
        grads = cts.grads
        if constant:
            reached = depends_on(self.kind.jaxpr, cts.needed)
            if any(grads[n] is not None and reached[n] for n in constant):
                return self._transposed(cts)
            grads = [None if n in constant else grad for n, grad in enumerate(grads)]
            if all(grad is None for grad in grads):
                chosen = compress(cts.operands, cts.needed)
                return [vary_alike([jnp.zeros(x.shape, x.dtype), x])[0] for x in chosen]
        # The gradients of PyTorch are the conjugates of those of JAX.
        grads = [grad if grad is None else _conjugate(grad) for grad in grads]
        cts = replace(cts, grads=grads)
        if backward is None:
            gradients = self._derived(cts)
        elif backward.entry.gradients:
            gradients = self._explicit(backward, cts)
        else:
            gradients = self._operator_gradients(backward, cts)
        return [_conjugate(gradient) for gradient in gradients]

    def _constant_results(self, needed: tuple[bool, ...]) -> tuple[int, ...]:
        """Positions of the results to which PyTorch gives no gradient."""
        if self.definition.own is not None:
            reached = depends_on(self.kind.jaxpr, needed)
            return tuple(n for n, is_reached in enumerate(reached) if not is_reached)
        backward = self.definition.backward
        if backward is not None and backward.entry.gradients:
            return ()
        return self._constant_in_pytorch(needed)

    @computed_once
    def _constant_in_pytorch(self, needed: tuple[bool, ...]) -> tuple[int, ...]:
        whole = self._whole(needed)
        differentiable = self._lowered(
            meaning.differentiable, self.definition, self.spec, self._types, whole
        )
        return tuple(n for n, has_gradient in enumerate(differentiable) if not has_gradient)

    def _transposed(self, cts: Cotangents) -> list[Any]:
        """The gradient of the decomposition, if the program differentiates a result that is a
        constant in PyTorch."""

        def differentiated(*operands: Any) -> list[Any]:
            results = self.kind.decomposition(*operands)
            return [r for r, grad in zip(results, cts.grads, strict=True) if grad is not None]

        chosen = on_selected(differentiated, cts.operands, cts.needed)
        pull = jax.vjp(chosen, *compress(cts.operands, cts.needed))[1]
        return list(pull(cts.present))

    def _derived(self, cts: Cotangents) -> list[Any]:
        values = [*meaning.spread(cts.operands, self._types), *cts.results]
        saved = [values[n] for n in self._taken(len(cts.grads))]
        types = tuple(map(strong_or_none, cts.grads))
        backward = self.backward_kind(types, cts.needed, tuple(map(strong_or_none, saved)))
        return bind(backward, [*cts.present, *(value for value in saved if value is not None)])

    @computed_once
    def backward_kind(self, grads: Types, needed: tuple[bool, ...], saved: Types) -> Kind:
        """The derived backward, which is a separate composite."""
        derived = self._backward_spec(grads, needed)
        operands = [*(grad for grad in grads if grad is not None), *saved]
        function = self._lowered(meaning.backward, self.definition, derived, operands)
        if derived.unsaved:
            unsaved = [self._types[n] for n in derived.unsaved]
            whole = self._lowered(meaning.backward, self.definition, derived, operands, unsaved)
            types = [type_ for type_ in (*operands, *unsaved) if type_ is not None]
            read = reads(self._lowered(trace, whole, types))
            derived.refuse_unsaved(read[len(read) - len(unsaved) :])
        return self._backward_kind(function, grads, needed, saved)

    def _backward_spec(self, grads: Sequence[Any | None], needed: tuple[bool, ...]) -> BackwardSpec:
        present, taken = tuple(grad is not None for grad in grads), self._taken(len(grads))
        return BackwardSpec(self.spec, self._types, present, self._whole(needed), taken)

    def _backward_kind(
        self, function: Callable[..., Any], grads: Types, needed: tuple[bool, ...], saved: Types
    ) -> Kind:
        """The derived backward that a function of gradients and saved values computes."""
        entry = self.definition.entry
        present = [type_ for type_ in (*grads, *saved) if type_ is not None]
        mask = attribute_types.boolean_list(self._whole(needed))

        def make(forward: EntryCall, grads: Types, saved: Types) -> Kind:
            return forward.backward_kind(grads, needed, saved)

        return Kind(
            entry.backward_name,
            entry.version,
            texts({**self._attributes, "output_mask": mask}),
            self._lowered(trace, function, present),
            BackwardRules(self, grads, saved, self._sources(grads, saved), make),
        )

    def _taken(self, results: int) -> tuple[int, ...]:
        """See `taken_by_derived`."""
        return taken_by_derived(self.spec, results)

    def _sources(self, grads: Types, saved: Types) -> tuple[Source, ...]:
        """The sources of the operands of the derived backward."""
        count, results = len(self._types), len(grads)
        sources = [Source("grad", n) for n in range(sum(grad is not None for grad in grads))]
        for n, type_ in zip(self._taken(results), saved, strict=True):
            if type_ is None:
                continue
            if n < count:
                before = self._types[:n]
                sources.append(Source("operand", sum(type_ is not None for type_ in before)))
            elif n < count + results:
                sources.append(Source("result", n - count))
            else:
                sources.append(Source("further", n - count - results))
        return tuple(sources)

    def _whole(self, needed: Sequence[bool]) -> tuple[bool, ...]:
        """`needed`, with False for absent operands."""
        rest = iter(needed)
        return tuple(type_ is not None and next(rest) for type_ in self._types)

    def _explicit(self, backward: Definition, cts: Cotangents) -> list[Any]:
        """The gradients of an entry without an operator."""
        values = enumerate((*meaning.spread(cts.operands, self._types), *cts.results))
        named = self._backward_spec(cts.grads, cts.needed).named(dict(values), cts.grads)
        parameters = [argument.name for argument in backward.signature.arguments]
        returned = self.invoke(backward, {n: named[n] for n in parameters if n in named})
        by_name = gradients_by_name(self.spec, returned, backward.entry)
        by_operand = gradients_by_operand(self.spec, by_name, backward.entry)
        return list(compress(by_operand, self._whole(cts.needed)))

    def _operator_gradients(self, backward: Definition, cts: Cotangents) -> list[Any]:
        """The gradients as PyTorch's autograd computes them, with the composite of an operator."""
        types = tuple(map(strong_or_none, cts.grads))
        after = self.operator_after(backward, types, cts.needed)

        def called(*arguments: Any, **keywords: Any) -> Any:
            names = [argument.name for argument in backward.signature.arguments]
            return self.invoke(backward, dict(zip(names, arguments, strict=False)) | keywords)

        return self._lowered(after, called, *cts.present, *cts.operands, *cts.results)

    @computed_once
    def operator_after(
        self, backward: Definition, grads: Types, needed: tuple[bool, ...]
    ) -> meaning.Arrays:
        """See `meaning.operator_backward`."""
        definition, op = self.definition, backward.entry.op
        assert op is not None
        own = definition.entry.decomposition.target is not None
        return self._lowered(
            meaning.operator_backward,
            overload(definition.signature.qualified) if own else definition.function,
            self.spec,
            self._types,
            grads,
            self._whole(needed),
            overload(op),
        )

    # ---- Rules: vmap ----

    @computed_once
    def batched(self, size: int, axes: Axes) -> tuple[Kind, bool] | None:
        """See `Rules`. The first dimension of the operands with an axis counts the calls."""

        def moved(chosen: Axes) -> Kind | None:
            call = self.moved(size, chosen)
            return None if call is None else call.kind

        return batched_kind(self.kind, moved, size, axes)

    @computed_once
    def moved(self, size: int, axes: Axes) -> "EntryCall | None":
        """The call with one more dimension at the front of operands with an axis; None if the
        operator has no such call."""
        numbers = {number for number, axis in zip(self.order, axes, strict=True) if axis == 0}
        arrays = [
            wider(type_, size) if n in numbers else type_ for n, type_ in enumerate(self.arrays)
        ]
        first = next((type_ for type_ in self._types if type_ is not None), None)
        rank = 0 if first is None else len(first.shape)
        counted = {a.argument for a in self.definition.entry.attributes if a.normalize}
        values = {
            name: _moved(value, rank) if name in counted else value
            for name, value in self.values.items()
        }
        call = type(self)(self.definition, values, tuple(arrays), self.invoke, self.reads)
        try:
            return call if call.unmet is None and call.kind is not None else None
        except (LoweringError, InvalidCallError):  # not a call of the operator
            return None


@dataclass(frozen=True, eq=False)
class BackwardRules:
    """`Rules` of a backward. It is differentiated through its decomposition."""

    forward: EntryCall
    grads: Types
    saved: Types
    """The types of the values that a derived backward takes."""
    sources: tuple[Source, ...]
    """The sources of the backward's operands."""
    make: Callable[[EntryCall, Types, Types], Kind | None]
    """Makes the backward of a call, for types of gradients and of saved values; None if there is no
    such backward."""

    def moved(self, size: int, axes: Axes) -> Kind | None:
        """The backward of the forward with one more dimension at the front of operands with an
        axis; None if there is no such backward. Values that the backward does not take have an
        axis."""
        by_source = dict(zip(self.sources, axes, strict=True))
        present = sum(grad is not None for grad in self.grads)
        grad_axes = [by_source.get(Source("grad", n), 0) for n in range(present)]
        operands = range(len(self.forward.order))
        forward = self.forward.moved(
            size, tuple(by_source.get(Source("operand", n), 0) for n in operands)
        )
        if forward is None:
            return None
        grads = _all_wider(self.grads, grad_axes, size)
        saved = _all_wider(self.saved, axes[present:], size)
        try:
            return self.make(forward, grads, saved)
        except (LoweringError, InvalidCallError):  # the gradients are not those of such a call
            return None

    def differentiable(self, needed: tuple[bool, ...]) -> Kind | None:
        """See `Rules`."""
        return None

    def pull_back(self, cts: Cotangents) -> list[Any]:
        """See `Rules`."""
        raise AssertionError("the gradient of the decomposition is taken")

    def batched(self, size: int, axes: Axes) -> tuple[Kind, bool] | None:
        """See `Rules`."""
        kind = self.make(self.forward, self.grads, self.saved)
        assert kind is not None
        return batched_kind(kind, lambda chosen: self.moved(size, chosen), size, axes)


def _all_wider(types: Sequence[Any | None], axes: Sequence[int | None], size: int) -> Types:
    """Types, of which those with an axis have one more dimension. None has no axis."""
    rest = iter(axes)
    return tuple(
        type_ if type_ is None or next(rest) is None else wider(type_, size) for type_ in types
    )


def wider(type_: Any, size: int) -> Any:
    return jax.ShapeDtypeStruct((size, *type_.shape), type_.dtype)


def batched_kind(
    single: Kind,
    moved: Callable[[Axes], Kind | None],
    size: int,
    axes: Axes,
) -> tuple[Kind, bool] | None:
    """A composite of many calls of `single`, with an axis for the operands that have an axis, or
    else for all operands; None if no such composite has the same meaning.

    Args:
        moved: returns the composite with one more dimension at the front of operands with an axis.
    """
    for all_operands in (False, True):
        chosen = (0,) * len(axes) if all_operands else axes
        kind = moved(chosen)
        if kind is not None and has_meaning(kind, single, size, chosen):
            return kind, all_operands
    return None


def has_meaning(kind: Kind, single: Kind, size: int, axes: Sequence[int | None]) -> bool:
    """Return whether a composite computes many calls of `single` at once.

    Both decompositions must be the same operations, because a composite whose meaning differs from
    its decomposition is wrong.
    """
    many = jax.vmap(single.decomposition, in_axes=tuple(axes), axis_size=size)
    types = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in kind.jaxpr.in_avals]
    return is_same(trace(many, types), kind.jaxpr)


def strong(array: Any) -> Any:
    """The strong type of an array; in JAX, numbers do not change such a type."""
    type_ = jax.typeof(array) if not isinstance(array, jax.ShapeDtypeStruct) else array
    return jax.ShapeDtypeStruct(type_.shape, type_.dtype)


def strong_or_none(array: Any | None) -> Any | None:
    return None if array is None else strong(array)


def _conjugate(array: Any) -> Any:
    return jnp.conj(array) if jnp.iscomplexobj(array) else array


def texts(attributes: Mapping[str, str | None]) -> tuple[tuple[str, str], ...]:
    return tuple((name, text) for name, text in attributes.items() if text is not None)


def _moved(value: Any, rank: int) -> Any:
    """A dimension, or a list of dimensions, with one more dimension at the front."""
    if isinstance(value, list | tuple):
        return rebuilt(value, [_moved(item, rank) for item in value])
    return (
        value if value is None or isinstance(value, bool) else attribute_types.dim(value, rank) + 1
    )


def written(type_: Any) -> str:
    """The type of an array, as in `float32[2, 3]`."""
    return f"{type_.dtype.name}{list(type_.shape)}"
