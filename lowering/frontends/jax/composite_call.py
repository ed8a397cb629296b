"""A composite in a JAX program: a primitive, and its rules for JAX's transformations.

Each kind of call is traced once, so that equal calls share one decomposition. The rules:

- A derivative is that of the decomposition. Its pullback (`jax.grad`, `jax.vjp`) is computed by
  `Rules.pull_back`, as one composite for most entries.
- The transpose (`jax.linear_transpose`) of a call that is linear in some operands is that of its
  decomposition.
- Under `jax.vmap`, the call is a composite again if `Rules.batched` returns one with the same
  meaning, and otherwise its decomposition.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial, wraps
from itertools import compress
from typing import Any, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal, Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir

from composites.errors import CompositesWarning
from lowering.frontends.jax.internals import (
    add_one_by_one,
    axes_read,
    bind_composite,
    define_pull_back,
    has_ordered_effects,
    is_empty,
    is_sharded,
    results_for,
    results_read,
    run_equation,
    transposed,
    vary_alike,
    varying_as,
    without_symbols,
    without_unused,
)
from lowering.frontends.jax.settings import Settings


class Rules(Protocol):
    """The rules that transformations need for a kind of call, besides its decomposition."""

    def differentiable(self, needed: tuple[bool, ...]) -> "Kind | None":
        """The kind whose results are followed by the further values that the backward takes; None
        to use the gradient of the decomposition.

        `needed` is True for each operand whose gradient is requested.
        """

    def pull_back(self, cts: "Cotangents") -> list[Any]:
        """The gradients of the operands that are needed."""

    def batched(self, size: int, axes: tuple[int | None, ...]) -> "tuple[Kind, bool] | None":
        """The kind that computes many calls of this kind at once; None if there is no such kind.

        Args:
            size: the number of calls.
            axes: for each operand, 0 if it has a value for each call, None if the calls share one.

        Returns:
            The kind, and True if all its operands have a value for each call.
        """


@dataclass(frozen=True, slots=True)
class Cotangents:
    """The gradients of a call's results, and the values for computing those of its operands."""

    operands: Sequence[Any]
    results: Sequence[Any]
    """The results of the kind that `Rules.differentiable` returned."""
    grads: Sequence[Any | None]
    """For each result of the kind itself, its gradient, or None if it is zero."""
    needed: tuple[bool, ...]
    """For each operand, True if its gradient is requested."""

    @property
    def present(self) -> list[Any]:
        """The gradients that are not zero."""
        return [grad for grad in self.grads if grad is not None]


def on_selected(
    function: Callable[..., Any], operands: Sequence[Any], selected: Sequence[bool]
) -> Callable[..., Any]:
    """A function of the selected operands, with fixed values of the other operands."""

    def run(*values: Any) -> Any:
        rest = iter(values)
        pairs = zip(operands, selected, strict=True)
        return function(*(next(rest) if is_selected else x for x, is_selected in pairs))

    return run


@dataclass(frozen=True, slots=True)
class Merged:
    """An order that merges the first two dimensions."""

    size: int
    """The size of the first dimension."""


Order = tuple[int, ...] | Merged | None
"""The order of an array's elements in another array, such as a permutation of its dimensions; None
for the same order."""


@dataclass(frozen=True, slots=True)
class Split:
    """An order that splits the first dimension, and undoes `Merged`."""

    size: int
    """The size of the first dimension."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The form of the caller's arrays in a composite."""

    operands: tuple[Order, ...]
    """For each operand, the composite's form of the caller's array."""
    results: tuple[Order, ...]
    """For each result, the composite's form of the caller's array."""

    def into(self, arrays: Sequence[Any], orders: Sequence[Order]) -> list[Any]:
        """Convert arrays of the caller to the composite's form. None is an absent array."""
        return [ordered(x, order) for x, order in zip(arrays, orders, strict=True)]

    def out_of(self, arrays: Sequence[Any], orders: Sequence[Order]) -> list[Any]:
        """Convert arrays of the composite to the caller's form."""
        return [ordered(x, inverse(order)) for x, order in zip(arrays, orders, strict=True)]


def inverse(order: Order) -> Order | Split:
    match order:
        case None:
            return None
        case Merged(size):
            return Split(size)
    return tuple(order.index(n) for n in range(len(order)))


def ordered(array: Any, order: Order | Split) -> Any:
    """An array in another form. None stays None."""
    if array is None or order is None:
        return array
    match order:
        case Merged(size):
            return array.reshape(size * array.shape[1], *array.shape[2:])
        case Split(size):
            return array.reshape(size, array.shape[0] // size, *array.shape[1:])
    # XLA keeps the order in memory through a transpose, and computes the program's sums of the
    # result in that order. A shape with one more dimension has the default order again.
    moved = jax.lax.transpose(array.reshape(1, *array.shape), (0, *(n + 1 for n in order)))
    return moved.reshape(moved.shape[1:])


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """The common part of equal calls of a composite."""

    name: str
    """The composite's name in StableHLO."""
    version: int
    attributes: tuple[tuple[str, str], ...]
    """Names, and values as MLIR text."""
    jaxpr: Any
    """The decomposition, a closed jaxpr without constants."""
    rules: Rules | None = None
    """None: the derivatives are those of the decomposition, and vmap returns no composite."""
    uncompiled: Callable[..., list[Any]] | None = None
    """For a program whose bits must stay: the function of the operands that the composite replaces.
    It is called where no composite is used: outside of `jax.jit`, and for derivatives. None: only
    `jaxpr` is used."""
    laid_out: "tuple[Kind, Layout] | None" = None
    """The composite itself, if its arrays have another form than those of the call. JAX adds up the
    gradients of the caller's arrays, so that transposing them before would change sums."""
    symbolic_too: bool = False
    """True if the call is also a composite in modules with symbolic sizes. JAX (0.12) writes such
    modules but cannot run them: its refinement of shapes does not enter composites."""
    _compiled: dict[Any, Callable[..., Any]] = field(default_factory=dict, init=False, repr=False)
    """The functions that run outside of `jax.jit`, kept so that they are freed with the kind."""
    settings: Settings = field(default_factory=Settings.now)
    """The settings under which the call was made. Later derivations of the call, such as its
    backward, use the same settings, as in JAX's own operations."""

    @property
    def decomposition(self) -> Callable[..., list[Any]]:
        return jaxpr_as_fun(self.jaxpr)  # type: ignore[no-any-return]

    def compiled(self, function: Callable[..., Any], **parameters: Any) -> Callable[..., Any]:
        """A function that `jax.jit` compiles, with this kind and `parameters` bound."""
        key = (function, *parameters.values())
        if key not in self._compiled:
            self._compiled[key] = jax.jit(partial(function, kind=self, **parameters))
        return self._compiled[key]


def bind(kind: Kind, operands: Sequence[Any]) -> list[Any]:
    """One call of a composite. The operands have the types of the kind's decomposition."""
    results: list[Any] = _call_p.bind(*vary_alike(operands), kind=kind)
    return results


def trace(function: Callable[..., Any], types: Sequence[Any], *, holds_arrays: bool = False) -> Any:
    """A function of arrays as a closed jaxpr. It returns a list of arrays.

    Args:
        holds_arrays: True if the function may hold arrays of more than 64 numbers.

    Raises:
        ValueError: the function holds an array, which would have to be an operand, reads an axis of
            the program around it, or has ordered effects.
    """
    traced = jax.make_jaxpr(function)(*types)
    if axes := axes_read(traced):
        raise ValueError(
            f"it reads the axis {axes[0]!r} of the program around it, as collectives do, and a"
            " composite computes from its operands alone; call them outside of this function"
        )
    if has_ordered_effects(traced):
        raise ValueError(
            "it has an effect that is ordered, as jax.debug.print(ordered=True) has, and a"
            " composite cannot keep the order; call that outside of this function"
        )
    # In a derived backward, named values (`composites.intermediate`) make operations unused.
    write = held_array if holds_arrays else constant
    return without_unused(jax.make_jaxpr(partial(_inlined, traced, write=write))(*types))


_LARGEST = 64
"""The largest number of elements of a constant."""


def constant(array: Any) -> Any:
    """A small array, written as numbers. An array itself would be one more operand.

    Raises:
        ValueError: the array is not small, or the program around the function computes it.
    """
    if isinstance(array, jax.core.Tracer):
        raise ValueError(
            f"the decomposition reads {array.dtype}{list(array.shape)}, which the program around it"
            " computes; take it as an argument"
        )
    values = np.asarray(array)
    if values.size > _LARGEST:
        raise ValueError(
            f"the decomposition holds an array that is not an operand, {values.dtype}"
            f"{list(values.shape)}; take it as an argument, or make constants from numbers, as with"
            " jnp.full"
        )
    if values.size == 0 or len({value.tobytes() for value in values.flat}) == 1:
        return jnp.full(values.shape, values.flat[0] if values.size else 0, values.dtype)
    single = [jnp.full((1,), value, values.dtype) for value in values.flat]
    return jnp.concatenate(single).reshape(values.shape)


@dataclass(frozen=True, slots=True)
class _Array:
    """The value of a constant, in a hashable form."""

    values: bytes
    dtype: Any
    shape: tuple[int, ...]


def held_array(array: Any) -> Any:
    """An array as a constant: a small array as numbers, others as an operation without operands.

    Raises:
        ValueError: the program around the function computes the array.
    """
    if isinstance(array, jax.core.Tracer) or np.size(array) <= _LARGEST:
        return constant(array)
    values = np.asarray(array)
    return _array_p.bind(array=_Array(values.tobytes(), values.dtype, values.shape))


_array_p = Primitive("composite_constant")


def _type_of_array(*, array: _Array) -> Any:
    return jax.core.ShapedArray(array.shape, array.dtype)


def _lower_array(context: Any, *, array: _Array) -> Any:
    values = np.frombuffer(array.values, array.dtype).reshape(array.shape)
    return [mlir.ir_constant(values)]


_array_p.def_abstract_eval(_type_of_array)
mlir.register_lowering(_array_p, _lower_array)


def reads(jaxpr: Any) -> list[bool]:
    """For each operand of a closed jaxpr, True if a result or an effect depends on its value.

    A nested composite may take an operand that its decomposition does not read, such as the moving
    averages of a batch norm.
    """
    types = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in jaxpr.in_avals]
    return results_read(jax.make_jaxpr(partial(_inlined, jaxpr, composites=True))(*types))


def _inlined(
    jaxpr: Any,
    *operands: Any,
    composites: bool = False,
    write: Callable[[Any], Any] = constant,
) -> list[Any]:
    """Inline the calls of jitted functions in a traced function; they would become further
    functions of the module.

    Args:
        composites: inline calls of composites, too.
        write: writes an array that the function holds.
    """
    held = map(write, jaxpr.consts)
    values = dict(zip(jaxpr.jaxpr.constvars, held, strict=True))
    values |= dict(zip(jaxpr.jaxpr.invars, operands, strict=True))

    def read(atom: Any) -> Any:
        if isinstance(atom, Literal):  # since jax 0.8 this may be an array
            return write(atom.val) if np.ndim(atom.val) else atom.val
        return values[atom]

    for equation in jaxpr.jaxpr.eqns:
        read_operands = [read(atom) for atom in equation.invars]
        if equation.primitive.name in ("jit", "pjit"):
            results = _inlined(
                equation.params["jaxpr"], *read_operands, composites=composites, write=write
            )
        elif composites and equation.primitive is _call_p:
            kind = equation.params["kind"]
            results = _inlined(kind.jaxpr, *read_operands, composites=True)
        else:
            results = run_equation(equation, read_operands)
        values |= dict(zip(equation.outvars, results, strict=True))
    return [read(atom) for atom in jaxpr.jaxpr.outvars]


# ---- the call ----

Rule = TypeVar("Rule", bound=Callable[..., Any])


def _as_called(rule: Rule) -> Rule:
    """Run a rule under the settings of the call."""

    @wraps(rule)
    def run(*arguments: Any, kind: Kind, **parameters: Any) -> Any:
        with kind.settings.entered():
            return rule(*arguments, kind=kind, **parameters)

    return run  # type: ignore[return-value]


_call_p = Primitive("composite_call")
_call_p.multiple_results = True


def _composite(*operands: Any, kind: Kind, jaxpr: Any) -> list[Any]:
    if kind.laid_out is not None:
        inner, layout = kind.laid_out
        results = _composite(*layout.into(operands, layout.operands), kind=inner, jaxpr=inner.jaxpr)
        return layout.out_of(results, layout.results)
    return bind_composite(kind.name, kind.version, kind.attributes, jaxpr, operands)


def _abstract_call(*operands: Any, kind: Kind) -> Any:
    return varying_as(results_for(kind.jaxpr, [x.shape for x in operands]), operands)


@_as_called
def _run_call(*operands: Any, kind: Kind) -> Any:
    if kind.uncompiled is not None:
        return kind.uncompiled(*operands)
    if jax.config.jax_disable_jit:  # a function of `jax.jit` would run this rule again
        return kind.decomposition(*operands)
    return kind.compiled(_call_p.bind)(*operands)


@_as_called
def _push_forward_call(primals: Any, tangents: Any, *, kind: Kind) -> Any:
    changing = tuple(type(tangent) is not ad.Zero for tangent in tangents)
    nonzero = list(compress(tangents, changing))
    saving = None if kind.rules is None else kind.rules.differentiable(changing)
    if saving is None:
        results = bind(kind, primals)
        terms = iter(_derivative(kind, changing, primals, nonzero))
    else:
        saved = bind(saving, primals)
        results = saved[: len(kind.jaxpr.out_avals)]
        values = vary_alike([*primals, *saved, *nonzero])
        terms = iter(_derivative_p.bind(*values, kind=kind, needed=changing))
    pushed = [
        next(terms) if _is_differentiable(result) else ad.Zero(jax.typeof(result).to_tangent_aval())
        for result in results
    ]
    return results, pushed


def _derivative(
    kind: Kind, needed: Sequence[bool], operands: Sequence[Any], tangents: Sequence[Any]
) -> list[Any]:
    """The tangents of the results of the decomposition that can have a tangent."""

    def differentiable(*values: Any) -> list[Any]:
        results = (kind.uncompiled or kind.decomposition)(*values)
        return [result for result in results if _is_differentiable(result)]

    selected = on_selected(differentiable, operands, needed)
    chosen = list(compress(operands, needed))
    return jax.jvp(selected, chosen, list(tangents))[1]  # type: ignore[no-any-return]


@_as_called
def _transpose_call(grads: Any, *operands: Any, kind: Kind) -> Any:
    """The gradients of the operands in which a call is linear, according to the program, as in
    `jax.linear_transpose` and in tangents of `jax.custom_jvp`."""
    linear = [ad.is_undefined_primal(operand) for operand in operands]
    selected = on_selected(kind.uncompiled or kind.decomposition, operands, linear)
    types = [operand.aval for operand in compress(operands, linear)]
    gradients = iter(transposed(selected, types, grads))
    return [next(gradients) if asked else None for asked in linear]


def _is_differentiable(array: Any) -> bool:
    return bool(jnp.issubdtype(array.dtype, jnp.inexact))


@_as_called
def _batch_call(operands: Any, dims: Any, *, kind: Kind) -> Any:
    pairs = list(zip(operands, dims, strict=True))
    size = next(x.shape[dim] for x, dim in pairs if dim is not None)
    moved = [x if dim is None else jnp.moveaxis(x, dim, 0) for x, dim in pairs]
    axes = tuple(None if dim is None else 0 for dim in dims)
    # JAX adds up gradients of an array that is passed twice in its own order.
    is_repeated = kind.uncompiled is not None and len(set(map(id, operands))) < len(operands)
    # A module with symbolic sizes has no composites, and symbols cannot be compared like sizes.
    # The types of the batched calls may be sharded, although those of a single call are not.
    is_plain = is_repeated or any(is_symbolic(x) or is_sharded(x) for x in moved)
    rules = None if is_plain else kind.rules
    made = None if rules is None else rules.batched(size, axes)
    if made is None:
        results = jax.vmap(kind.decomposition, in_axes=axes)(*moved)
    else:
        batched, all_operands = made
        if all_operands:
            moved = [
                jnp.broadcast_to(x, (size, *x.shape)) if axis is None else x
                for x, axis in zip(moved, axes, strict=True)
            ]
        results = bind(batched, moved)
    return results, [0] * len(results)


def is_symbolic(array: Any) -> bool:
    """Return whether a size of an array is a symbol, as in `jax.export` with symbolic shapes."""
    return not all(isinstance(size, int) for size in array.shape)


@_as_called
def _lower_call(context: Any, *operands: Any, kind: Kind) -> Any:
    free = without_symbols(context, kind.jaxpr, symbolic_too=kind.symbolic_too)
    if free is None:
        warnings.warn(
            f"{kind.name} is not a composite in this module: JAX does not support composites of"
            " symbolic sizes, or composites that it lowers differently for several platforms",
            CompositesWarning,
            stacklevel=2,
        )
        return mlir.lower_fun(kind.decomposition, multiple_results=True)(context, *operands)
    inner, jaxpr = free
    composite = partial(_composite, kind=kind, jaxpr=jaxpr)
    return mlir.lower_fun(composite, multiple_results=True)(inner, *operands)


_call_p.def_abstract_eval(_abstract_call)
_call_p.def_impl(_run_call)
mlir.register_lowering(_call_p, _lower_call)
ad.primitive_jvps[_call_p] = _push_forward_call
ad.primitive_transposes[_call_p] = _transpose_call
batching.primitive_batchers[_call_p] = _batch_call


# ---- its derivative, which is linear in the tangents that come last ----

_derivative_p = Primitive("composite_derivative")
_derivative_p.multiple_results = True


@_as_called
def _push(*values: Any, kind: Kind, needed: tuple[bool, ...]) -> list[Any]:
    """The tangents of the results, from the operands, results and saved arrays, and the tangents of
    the selected operands."""
    return _derivative(kind, needed, values[: len(needed)], values[len(values) - sum(needed) :])


def _abstract_push(*values: Any, kind: Kind, needed: tuple[bool, ...]) -> Any:
    return varying_as(list(filter(_is_differentiable, kind.jaxpr.out_avals)), values)


@_as_called
def _run_push(*values: Any, kind: Kind, needed: tuple[bool, ...]) -> Any:
    if kind.uncompiled is not None:
        return _push(*values, kind=kind, needed=needed)
    return kind.compiled(_push, needed=needed)(*values)


@_as_called
def _push_forward_push(primals: Any, tangents: Any, **parameters: Any) -> Any:
    nonzero = [t for t in tangents if type(t) is not ad.Zero]
    changing = [type(t) is not ad.Zero for t in tangents]
    selected = on_selected(partial(_push, **parameters), primals, changing)
    return jax.jvp(selected, list(compress(primals, changing)), nonzero)


@_as_called
def _pull_back(grads: Any, *values: Any, kind: Kind, needed: tuple[bool, ...]) -> Any:
    assert kind.rules is not None
    count = len(values) - sum(needed)
    operands, saved = values[: len(needed)], values[len(needed) : count]
    rest = iter(grads)
    result_grads = [
        None if not _is_differentiable(aval) or type(grad := next(rest)) is ad.Zero else grad
        for aval in kind.jaxpr.out_avals
    ]
    if all(grad is None for grad in result_grads):
        return [None] * count + [ad.Zero(value.aval) for value in values[count:]]
    cotangents = Cotangents(operands, saved, result_grads, needed)
    return [None] * count + kind.rules.pull_back(cotangents)


@_as_called
def _add_pulled_back(grads: Any, *values: Any, kind: Kind, needed: tuple[bool, ...]) -> None:
    """Add the gradients to the sums that JAX passes.

    A composite adds one gradient for each operand, while the operations of a program add several
    terms. If another gradient was added before, the sum depends on the order.
    """
    count = len(values) - sum(needed)
    sums = values[count:]
    if kind.uncompiled is None or all(map(is_empty, sums)):
        blank = [ad.UndefinedPrimal(gradients.aval) for gradients in sums]
        pulled = _pull_back(grads, *values[:count], *blank, kind=kind, needed=needed)[count:]
        for gradients, gradient in zip(sums, pulled, strict=True):
            gradients.accum(gradient)
        return
    operands = values[: len(needed)]
    types = [gradients.aval for gradients in sums]
    add_one_by_one(lambda *cts: _derivative(kind, needed, operands, cts), types, sums, grads)


@_as_called
def _batch_push(values: Any, dims: Any, **parameters: Any) -> Any:
    results = jax.vmap(partial(_push, **parameters), in_axes=tuple(dims))(*values)
    return results, [0] * len(results)


_derivative_p.def_abstract_eval(_abstract_push)
_derivative_p.def_impl(_run_push)
mlir.register_lowering(_derivative_p, mlir.lower_fun(_push, multiple_results=True))
ad.primitive_jvps[_derivative_p] = _push_forward_push
ad.primitive_transposes[_derivative_p] = _pull_back
define_pull_back(_derivative_p, _add_pulled_back)
batching.primitive_batchers[_derivative_p] = _batch_push
