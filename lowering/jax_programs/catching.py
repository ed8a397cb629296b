"""A call of a JAX function: the composite of an entry, or the function itself.

The entry's adapter maps the arguments of the JAX function to those of the entry. A call that the
adapter cannot express, or that `CaughtCall.check` refuses, falls back to the function.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, get_args

import jax
import jax.numpy as jnp

from composites.errors import CompositesError, UnsupportedCallError, UnusableFunctionError
from composites.registry.model import Composite
from lowering.dispatch.computations import remember
from lowering.dispatch.statistics import EntryStatistics
from lowering.frontends.jax.composite_call import Layout, Order, bind, trace
from lowering.frontends.jax.internals import KNOWS_SUMS, has_own_type, settings_of_traces
from lowering.jax_entries.arguments import Slot, build_signature, split_arrays, typed
from lowering.jax_entries.calls import strong
from lowering.jax_entries.definition import Definition
from lowering.jax_entries.entries import Entries
from lowering.jax_entries.surroundings import has_no_composites, without_composites
from lowering.jax_entries.traced import is_same
from lowering.jax_programs.caught_calls import CaughtCall, Many
from lowering.jax_programs.functions.arguments import is_array
from lowering.jax_programs.laid_out import LaidOutCall, ordered_type

Orders = tuple[tuple[Order, ...], tuple[Order, ...]]
"""The orders of the arrays among the arguments, and of the results."""


@dataclass(frozen=True, slots=True)
class Claim:
    """An entry that catches a JAX function."""

    definition: Definition
    adapter: Callable[..., Any]
    statistics: EntryStatistics

    @property
    def entry(self) -> Composite:
        return self.definition.entry


@dataclass(frozen=True, eq=False)
class Catcher:
    """A handler of the calls of one JAX function, while entries that catch the function are on."""

    target: str
    claims: Sequence[Claim]
    entries: Entries
    is_compiled: bool
    """True if JAX compiles the function by itself (`jax.jit`). JAX then adds up the function's own
    gradients before other gradients."""
    calls: dict[Any, CaughtCall | LaidOutCall] = field(default_factory=dict)
    """The kinds of calls."""

    def __call__(
        self, original: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]
    ) -> Any:
        if has_no_composites():  # a decomposition is plain
            return original(*arguments, **keywords)
        reasons: list[tuple[Claim, str]] = []
        for claim in self.claims:
            composite = CaughtComposite(self, claim, original, arguments, keywords)
            try:
                return _adapted(claim, composite)
            except UnsupportedCallError as error:
                reasons.append((claim, str(error)))
        values = [*arguments, *keywords.values()]
        operands = jax.tree.leaves(values, is_leaf=lambda leaf: leaf is None)
        for claim, reason in reasons:
            claim.statistics.fallback(reason, operands).count_call()
        return original(*arguments, **keywords)


def _adapted(claim: Claim, composite: CaughtComposite) -> Any:
    try:
        # If the arguments do not fit the function itself, the program's call is wrong.
        inspect.signature(composite.original).bind(*composite.arguments, **composite.keywords)
        inspect.signature(claim.adapter).bind(composite, *composite.arguments, **composite.keywords)
    except TypeError as error:
        raise UnsupportedCallError(f"an argument that the entry does not have: {error}") from error
    return claim.adapter(composite, *composite.arguments, **composite.keywords)


@dataclass(frozen=True, slots=True)
class CaughtComposite:
    """The composite of an entry, for the adapter of one call."""

    catcher: Catcher
    claim: Claim
    original: Callable[..., Any]
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Make a call, and return its results: an array, or a list of several.

        For the arguments and errors see `prepared`.
        """
        return self.prepared(*arguments, **options)()

    def prepared(
        self,
        *arguments: Any,
        decomposition: Callable[..., Any] | None = None,
        has_backward: bool = True,
        orders: Orders | None = None,
        many: Many | None = None,
        **keywords: Any,
    ) -> Callable[[], Any]:
        """Prepare a call outside the program, for functions that are several composites or none.

        Args:
            arguments, keywords: the arguments of the entry.
            decomposition: the computation of the composite, as a function of its arrays in the
                order of the arguments. It is a frozen value; equal values compute the same. By
                default the JAX function, for which each array must be one of its arguments.
            has_backward: True if the entry's backward means the same as JAX's derivative.
            orders: permutations of dimensions, for each array among the arguments and for each
                result, if the composite's dimensions have another order than those of the arrays.
            many: the way in which `jax.vmap` can make one composite of many calls, if the entry's
                own decomposition does not show it. The numbers among the arguments must be the same
                for all calls.

        Returns:
            A function that puts the composite into the program, and returns its results: an array,
            or a list of several.

        Raises:
            UnsupportedCallError: the entry does not support the call.
            UnusableFunctionError: the entry does not have such arguments.
        """
        claim = self.claim
        try:
            bound = build_signature(claim.definition).bind(*arguments, **keywords)
        except TypeError as error:
            problem = f"it passes arguments that the entry does not have: {error}"
            raise self._unusable(problem) from error
        bound.apply_defaults()
        flat = [leaf for leaf in jax.tree.leaves(list(bound.arguments.values())) if is_array(leaf)]
        for array in flat:
            if not has_own_type(array) or jnp.iscomplexobj(array):
                raise UnsupportedCallError(
                    "an array is complex, has the type of a number, or is explicitly sharded"
                )
        values, arrays = split_arrays(claim.definition, bound.arguments)
        if len(arrays) != len(flat):
            raise UnsupportedCallError("an operand is a number")
        function = _Original.from_call(self, flat) if decomposition is None else decomposition
        keeps_sums = KNOWS_SUMS or self.catcher.is_compiled
        # JAX adds up gradients of an array that is passed twice in an order of its own.
        is_repeated = len(set(map(id, flat))) < len(flat)
        single = CaughtCall(
            claim.definition, values, tuple(map(strong, arrays)), self.catcher.entries.invoke,
            function=_Uncaught(function),
            has_backward=has_backward and keeps_sums and not is_repeated,
            many=many,
        )  # fmt: skip
        call = self._shared(single, orders)

        def put() -> Any:
            claim.statistics.caught += 1
            results = bind(call.kind, [arrays[number] for number in call.order])
            return results[0] if len(results) == 1 else results

        return put

    def is_same(self, left: Callable[..., Any], right: Callable[..., Any], *arrays: Any) -> bool:
        """Return whether two functions are the same operations for the types of `arrays`."""
        types = [strong(jnp.asarray(array)) for array in arrays]
        return is_same(trace(_Uncaught(left), types), trace(_Uncaught(right), types))

    def _shared(self, call: CaughtCall, orders: Orders | None) -> CaughtCall | LaidOutCall:
        """The call that equal calls share. The function of `call` takes its arrays in order."""
        calls = self.catcher.calls
        key = (
            self.claim.entry.identity, typed(tuple(call.values.items())), call.arrays,
            call.function, call.has_backward, call.many, orders, settings_of_traces(),
        )  # fmt: skip
        try:
            shared = calls.get(key)
        except TypeError as error:
            raise UnsupportedCallError(f"an argument cannot be compared: {error}") from error
        if shared is None:
            problem = _find_problem(call, orders)
            if problem is not None:
                raise self._unusable(problem)
            shared = _checked(call) if orders is None else _laid_out(call, Layout(*orders))
            self.claim.statistics.lowered += 1
            remember(calls, key, shared)
        return shared

    def _unusable(self, problem: str) -> UnusableFunctionError:
        """The error for an adapter that cannot be used."""
        entry, adapter = self.claim.entry, self.claim.adapter
        return UnusableFunctionError(
            f"{entry.qualified} ({entry.location}): jax:"
            f" {adapter.__module__}:{adapter.__qualname__}: {problem}"
        )


def _laid_out(call: CaughtCall, layout: Layout) -> LaidOutCall:
    def inside(*arrays: Any) -> list[Any]:
        results = listed(call.function(*layout.out_of(arrays, layout.operands)))
        return layout.into(results, layout.results)

    laid_out = tuple(map(ordered_type, call.arrays, layout.operands))
    inner = _checked(replace(call, arrays=laid_out, function=inside, many=None))
    in_order = replace(layout, operands=tuple(layout.operands[n] for n in inner.order))
    return LaidOutCall(inner, in_order, _in_order(call.function, inner.order))


def _checked(call: CaughtCall) -> CaughtCall:
    """The call with a function of the operands in the composite's order.

    Raises:
        UnsupportedCallError: the entry does not support the call.
    """
    checked = replace(call, function=_in_order(call.function, call.order))
    try:
        checked.check()
    except UnsupportedCallError:
        raise
    except CompositesError as error:
        raise UnsupportedCallError(str(error)) from error
    return checked


def _find_problem(call: CaughtCall, orders: Orders | None) -> str | None:
    """The problem of an adapter's `many` and `orders`, which fit no call; None if there is none."""
    if call.many is not None and call.many not in get_args(Many):
        return f"many is {call.many!r}, and can be {' or '.join(map(repr, get_args(Many)))}"
    if orders is None:
        return None
    if call.many is not None:
        return "many and orders cannot both be given"
    if len(orders) != 2:
        return f"orders has {len(orders)} parts, and not those of arrays and of results"
    groups: list[tuple[str, Sequence[Any], tuple[Order, ...]]] = [
        ("arrays", call.arrays, orders[0])
    ]
    with suppress(Exception):  # the call falls back with this error
        groups.append(("results", listed(jax.eval_shape(call.function, *call.arrays)), orders[1]))
    for name, arrays, chosen in groups:
        if len(chosen) != len(arrays):
            return f"orders has {len(chosen)} of {name}, and there are {len(arrays)}"
        for array, order in zip(arrays, chosen, strict=True):
            if order is None:
                continue
            if not isinstance(order, tuple) or sorted(order) != list(range(len(array.shape))):
                return f"orders has {order} of {name}, for {len(array.shape)} dimensions"
    return None


def _in_order(function: Callable[..., Any], order: Sequence[int]) -> Callable[..., list[Any]]:
    """A function of arrays as a function of operands, for each of which `order` has the number of
    the array. It returns a list."""

    def in_order(*operands: Any) -> list[Any]:
        arrays = list(operands)
        for number, operand in zip(order, operands, strict=True):
            arrays[number] = operand
        return listed(function(*arrays))

    return in_order


def listed(results: Any) -> list[Any]:
    """The results of a function as a list. A function may return one array."""
    return list(results) if isinstance(results, list | tuple) else [results]


@dataclass(frozen=True)
class _Original:
    """A JAX function with the arguments of a call, as a function of the arrays among them."""

    function: Callable[..., Any]
    leaves: tuple[Any, ...]
    """The leaves of the arguments, with a `Slot` for each array."""
    types: tuple[type, ...]
    """The types of the leaves, since 1, 1.0 and True are equal."""
    structure: Any

    @classmethod
    def from_call(cls, call: CaughtComposite, arrays: Sequence[Any]) -> _Original:
        flat, structure = jax.tree.flatten(
            (call.arguments, call.keywords), is_leaf=lambda leaf: leaf is None
        )
        numbers = {id(array): n for n, array in enumerate(arrays)}
        if any(is_array(leaf) and id(leaf) not in numbers for leaf in flat):
            raise UnsupportedCallError("an argument is an array that is not an operand")
        leaves = tuple(Slot(numbers[id(x)]) if is_array(x) else x for x in flat)
        return cls(call.original, leaves, tuple(map(type, leaves)), structure)

    def __call__(self, *arrays: Any) -> Any:
        filled = [arrays[x.number] if isinstance(x, Slot) else x for x in self.leaves]
        arguments, keywords = jax.tree.unflatten(self.structure, filled)
        return self.function(*arguments, **keywords)


@dataclass(frozen=True)
class _Uncaught:
    """A decomposition, in which no function is caught."""

    function: Callable[..., Any]

    def __call__(self, *arrays: Any) -> Any:
        with without_composites():
            return self.function(*arrays)
