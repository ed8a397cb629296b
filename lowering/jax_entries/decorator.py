"""`@composites.jax.composite("acme.swish")`: make one of the user's own JAX functions a composite.

As for entries of registries, `calls` makes a composite for each kind of call. But the entry is not
in a registry, and mistakes in a call are errors, since only the author calls the function.
"""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from composites.attribute_types import UnsupportedValueError, by_value
from composites.errors import AllowlistError, InvalidCallError, RegistryError, UnusableFunctionError
from composites.registry.model import Composite, Registry
from composites.registry.signatures import describe_function
from lowering.decorator import check_name, find_owner, make_entry
from lowering.dispatch.reads import refusal
from lowering.frontends.aten_in_jax.dtypes import torch_dtype
from lowering.frontends.jax.internals import is_sharded
from lowering.jax_entries.arguments import Slot, rebuilt
from lowering.jax_entries.calls import EntryCall
from lowering.jax_entries.definition import Definition
from lowering.jax_entries.functions import EntryFunction
from lowering.jax_entries.statistics import statistics

Function = TypeVar("Function", bound=Callable[..., Any])

_ARRAYS = ("tensor", "tensors", "optional_tensors")
"""Kinds of arguments that are annotated as arrays."""


def composite(
    name: str,
    *,
    operands: Sequence[str] | None = None,
    attributes: Sequence[str] | Mapping[str, str] | None = None,
    version: int = 1,
    saves: Sequence[str] | None = None,
    intermediates: Sequence[str] = (),
) -> Callable[[Function], Function]:
    """Make a function of JAX arrays one composite wherever a JAX program calls it.

    The function's body is the decomposition, and the composite's backward, `<name>_backward`, is
    the derivative that JAX has for it. Calls of equal arguments, and of arrays of equal types,
    share one decomposition, so the function is traced once for all of them. Composites that the
    body calls stay nested in the decomposition. The composite is always on.

    The function takes arrays, lists of arrays, or None as operands. It returns arrays in any
    nesting. The arrays that it reads are its operands, and no others.

    Args:
        name: the composite's name, `namespace.name`.
        operands: arguments that are arrays, in the composite's order; by default every argument
            that is not an attribute.
        attributes: arguments that become attributes of the composite: bool, int (i64), float
            (f32), str, or lists of one of these. An argument that is None is left out. A mapping
            gives each attribute's name and its argument. By default, keyword-only arguments that
            are neither in `operands` nor annotated as arrays. List every argument that changes the
            result: the composite does not show unlisted arguments. These must be hashable, and
            equal values must compute the same, as for static arguments of `jax.jit`.
        version: the version of the composite's meaning.
        saves: operands and results (`result`, `result.1`) that the backward takes; by default all
            operands. The backward is computed from these values; it is a `LoweringError` if the
            backward reads another operand.
        intermediates: names of values that the function gives to `composites.intermediate`. The
            forward returns them for the backward, which then does not compute them again.

    Raises:
        RegistryError: the name is not valid, `saves` lists something else, the function does not
            have a listed argument, takes `*args` or `**kwargs`, is a method, or is async or a
            generator. A call raises `InvalidCallError` if an operand is a number, or if an
            attribute is an array or another value that cannot be written.
    """
    check_name(name, "composites.jax.composite")

    def decorate(decorated: Function) -> Function:
        if isinstance(decorated, staticmethod | classmethod):
            kind = type(decorated)
            return kind(decorate(decorated.__func__))
        listed = _keyword_only(decorated, operands or ()) if attributes is None else attributes
        entry = make_entry(
            decorated,
            name,
            operands=operands,
            attributes=listed,
            version=version,
            saves=saves,
            intermediates=intermediates,
            is_jax=True,
        )
        _check_paths(entry, decorated)
        registry = Registry(entry.location.file, entry.namespace, (entry,))
        definition = Definition(entry, registry, own=decorated)
        try:
            definition.form  # noqa: B018
        except AllowlistError as error:
            raise _refused(entry, str(error.__cause__ or error)) from error
        own_function = _OwnFunction(definition)

        @functools.wraps(decorated)
        def call(*arguments: Any, **keywords: Any) -> Any:
            return own_function(*arguments, **keywords)

        return call  # type: ignore[return-value]

    return decorate


def _check_paths(entry: Composite, function: Callable[..., Any]) -> None:
    """Refuse a method, and operands and attributes that are read from an object."""
    owner = find_owner(function, list(inspect.signature(function).parameters))
    if owner is not None:
        raise _refused(
            entry,
            f"{function.__qualname__} is a method, and a JAX composite has no {owner!r}; decorate a"
            " function that takes the arrays as arguments, and call it in the method",
        )
    sources = (*entry.operands, *(a.argument or "" for a in entry.attributes))
    for path in (source for source in sources if "." in source):
        raise _refused(entry, f"{path!r} is a path; take the value as an argument of its own")


def _keyword_only(function: Callable[..., Any], operands: Sequence[str]) -> tuple[str, ...]:
    """The attributes of a function whose decorator lists none."""
    try:
        arguments = describe_function(function, "").arguments
    except UnusableFunctionError:  # the checks of the entry report this
        return ()
    return tuple(
        a.name for a in arguments
        if a.keyword_only and a.name not in operands and a.kind not in _ARRAYS
    )  # fmt: skip


def _refused(entry: Composite, problem: str) -> RegistryError:
    return RegistryError([entry.location.problem(problem, entry.qualified)])


def _no_entry(*_: Any) -> NoReturn:
    raise AssertionError("a derived backward calls no entry")


class _OwnFunction(EntryFunction):
    """The composite of a function under the decorator."""

    def __init__(self, definition: Definition) -> None:
        super().__init__(definition, _no_entry)
        self._statistics = statistics.for_entry(definition.entry, always_on=True)
        self._attributes = {a.argument for a in definition.entry.attributes}

    def __call__(self, /, *arguments: Any, **keywords: Any) -> Any:
        bound = self.__signature__.bind(*arguments, **keywords)
        bound.apply_defaults()
        arrays: list[Any] = []
        values = {
            name: self._operand(name, value, arrays)
            if name in self.definition.entry.operands
            else self._constant(name, value)
            for name, value in bound.arguments.items()
        }
        reads = self.definition.reads
        assert reads is not None
        reason = refusal(reads.now())
        if reason is not None:
            self._statistics.fallback(reason, arrays).count_call()
            return self.definition.function(*arguments, **keywords)
        call = self.call(values, arrays)
        assert call.unmet is None
        operands = [arrays[number] for number in call.order]
        if any(map(is_sharded, operands)):
            self._statistics.fallback("an operand is explicitly sharded", operands).count_call()
            return call.decomposed(operands)
        results = call.composite(operands)
        reads.refuse_written(call.reads)
        self._statistics.caught += 1
        return results

    def _make(self, values: Mapping[str, Any], types: tuple[Any, ...]) -> EntryCall:
        self._statistics.lowered += 1
        read = self.definition.read_now()
        return EntryCall(self.definition, values, types, self._invoke, read)

    def _operand(self, name: str, value: Any, arrays: list[Any]) -> Any:
        """A `Slot` for each array of an operand."""
        if value is None:
            return None
        if isinstance(value, list | tuple):
            return rebuilt(value, [self._operand(name, item, arrays) for item in value])
        if not isinstance(value, jax.Array | np.ndarray | np.generic):
            is_plain = isinstance(value, bool | int | float | complex | str)
            text = repr(value) if is_plain else f"a {type(value).__name__}"
            raise self._mistake(
                f"{name} is {text}, and an operand is an array, a list of arrays, or None; pass an"
                f" array, or list {name!r} in `attributes`"
            )
        array = jnp.asarray(value)
        if jnp.issubdtype(array.dtype, jax.dtypes.extended):
            raise self._mistake(
                f"{name} has the type {array.dtype}, which no composite takes; pass"
                " jax.random.key_data(…), and make a key of it inside"
            )
        try:
            torch_dtype(array.dtype)
        except TypeError as error:
            raise self._mistake(f"{name}: {error}, and no composite has such an operand") from error
        arrays.append(jax.lax.convert_element_type(array, array.dtype))
        return Slot(len(arrays) - 1)

    def _constant(self, name: str, value: Any) -> Any:
        """An argument that is not an operand."""
        if isinstance(value, jax.Array | np.ndarray):
            reason = "an attribute" if name in self._attributes else "no operand"
            raise self._mistake(
                f"{name} is {reason}, and was passed an array; list {name!r} in `operands`, or pass"
                " a number"
            )
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, list | tuple):
            value = rebuilt(value, [self._constant(name, item) for item in value])
        if value is not None and name in self._attributes:
            try:
                by_value(value)
            except UnsupportedValueError as error:
                raise self._mistake(f"{name}: {error}") from error
        return value

    def _mistake(self, problem: str) -> InvalidCallError:
        entry = self.definition.entry
        return InvalidCallError(f"{entry.location}: {entry.qualified}: {problem}")
