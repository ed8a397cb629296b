"""Entries as functions, the attributes of `composites.jax`."""

import inspect
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from composites.errors import LoweringError
from lowering.dispatch.computations import remember
from lowering.frontends.jax.internals import is_sharded
from lowering.jax_entries.arguments import build_signature, split_arrays, typed
from lowering.jax_entries.calls import EntryCall, strong
from lowering.jax_entries.definition import Definition
from lowering.jax_entries.public_arguments import FUNCTIONS
from lowering.jax_entries.surroundings import surroundings


class EntryFunction:
    """An entry of a registry, as a function of JAX arrays.

    It takes the arguments of the operator or function that the entry catches, with numbers and
    text as in PyTorch; if the entry adapts them, those of its decomposition; if the operator is
    private, those of a public function. Arrays, and lists of arrays, are its operands. It returns
    an array, or several arrays in a tuple or a list, as in PyTorch.

    Raises:
        LoweringError: on a call that the decomposition cannot compute, or on an entry that JAX
            programs cannot have.
    """

    def __init__(self, definition: Definition, invoke: Any) -> None:
        self.definition = definition
        self._invoke = invoke
        self._calls: dict[Any, EntryCall] = {}
        self.__name__ = self.__qualname__ = definition.entry.name
        self.__module__ = "composites.jax"

    def __repr__(self) -> str:
        return f"<composites.jax function {self.definition.entry.qualified}>"

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        entry = self.definition.entry
        schema = self.definition.signature.schema
        called = schema if self._public is None else f"{entry.name}{self.__signature__}"
        return f"The composite {entry.composite_name}, version {entry.version}.\n\n{called}"

    @property
    def _public(self) -> Callable[..., dict[str, Any]] | None:
        entry = self.definition.entry
        return FUNCTIONS.get(entry.op or "") if entry.adapt is None else None

    @cached_property
    def _operator_signature(self) -> inspect.Signature:
        return build_signature(self.definition)

    @cached_property
    def __signature__(self) -> inspect.Signature:
        if self._public is None:
            return self._operator_signature
        signature = inspect.signature(self._public)
        empty = inspect.Parameter.empty
        parameters = [p.replace(annotation=empty) for p in signature.parameters.values()]
        return inspect.Signature(parameters)

    def __call__(self, /, *arguments: Any, **keywords: Any) -> Any:
        bound = self.__signature__.bind(*arguments, **keywords)
        bound.apply_defaults()
        named = bound.arguments if self._public is None else self._public(**bound.arguments)
        return self._run(named)

    def call_operator(self, named: Mapping[str, Any]) -> Any:
        """Call the entry with the arguments of the operator or function that it catches, by name.
        Arguments that have a default in its signature may be missing."""
        bound = self._operator_signature.bind(**named)
        bound.apply_defaults()
        return self._run(bound.arguments)

    def _run(self, named: Mapping[str, Any]) -> Any:
        values, arrays = split_arrays(self.definition, named)
        call = self.call(values, arrays)
        operands = [arrays[number] for number in call.order]
        # The types of a composite have no shardings.
        is_composite = call.is_claimed and not any(map(is_sharded, operands))
        return call.composite(operands) if is_composite else call.decomposed(operands)

    def call(self, values: Mapping[str, Any], arrays: list[Any]) -> EntryCall:
        """The shared call for equal arguments and arrays of equal types."""
        types = tuple(map(strong, arrays))
        key = (typed(tuple(values.items())), types, surroundings(), self.definition.read_now())
        try:
            call = self._calls.get(key)
        except TypeError as error:
            entry = self.definition.entry
            raise LoweringError(
                f"{entry.location}: {entry.qualified}: an argument is neither an array, a number,"
                f" text, a dtype, None, nor a list of these ({error})"
            ) from error
        if call is None:
            call = self._make(values, types)
            remember(self._calls, key, call)
        return call

    def _make(self, values: Mapping[str, Any], types: tuple[Any, ...]) -> EntryCall:
        return EntryCall(self.definition, values, types, self._invoke)
