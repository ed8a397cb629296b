"""Entries as functions: what `composites.jax` gives its users."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from composites.element_types import NAME_OF_PYTORCH, PYTORCH_NAMES
from composites.errors import LoweringError
from composites.registry.operators import Argument
from lowering.frontends.aten_in_jax.dtypes import has_x64
from lowering.jax_entries.calls import Call, Slot, strong
from lowering.jax_entries.definition import Definition

_KINDS = 4096
"""How many kinds of calls one function keeps. A program has a few for each model."""


class EntryFunction:
    """An entry of a registry, as a function of JAX arrays.

    It takes the arguments of the operator or function that the entry catches, with numbers and
    text as in PyTorch; where the entry adapts them, those of its decomposition. Arrays, and lists
    of arrays, are its operands. It returns an array, or several in a tuple or a list, as in
    PyTorch.

    Raises:
        LoweringError: on a call that the decomposition cannot compute, or on an entry that JAX
            programs cannot have.
    """

    def __init__(self, definition: Definition, invoke: Any) -> None:
        self.definition = definition
        self._invoke = invoke
        self._calls: dict[Any, Call] = {}
        self.__name__ = self.__qualname__ = definition.entry.name
        self.__module__ = "composites.jax"

    def __repr__(self) -> str:
        return f"<composites.jax function {self.definition.entry.qualified}>"

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        entry = self.definition.entry
        return (
            f"The composite {entry.composite_name}, version {entry.version}.\n\n"
            f"{self.definition.signature.schema}"
        )

    @cached_property
    def __signature__(self) -> inspect.Signature:
        return inspect.Signature(
            [_parameter(argument) for argument in self.definition.signature.arguments]
        )

    def __call__(self, /, *arguments: Any, **keywords: Any) -> Any:
        bound = self.__signature__.bind(*arguments, **keywords)
        bound.apply_defaults()
        arrays: list[Any] = []
        values = {name: self._value(name, v, arrays) for name, v in bound.arguments.items()}
        call = self._call(values, arrays)
        operands = [arrays[number] for number in call.order]
        return call.composite(operands) if call.unmet is None else call.decomposed(operands)

    def _call(self, values: Mapping[str, Any], arrays: list[Any]) -> Call:
        types = tuple(map(strong, arrays))
        key = (_key(tuple(values.items())), types, has_x64())
        try:
            found = self._calls.get(key)
        except TypeError as error:
            entry = self.definition.entry
            raise LoweringError(
                f"{entry.location}: {entry.qualified}: an argument is neither an array, a number,"
                f" text, a dtype, None, nor a list of these ({error})"
            ) from error
        if found is None:
            found = Call(self.definition, values, types, self._invoke)
            if len(self._calls) >= _KINDS:
                self._calls.clear()
            self._calls[key] = found
        return found

    def _value(self, name: str, value: Any, arrays: list[Any]) -> Any:
        """An argument with a `Slot` in the place of each array, which is added to `arrays`."""
        argument = self.definition.signature.argument(name)
        assert argument is not None
        is_operand = argument.kind in ("tensor", "tensors", "optional_tensors") or (
            argument.kind == "other" and name in self.definition.entry.operands
        )
        return _taken(value, is_operand, argument, arrays)


def _taken(value: Any, is_operand: bool, argument: Argument, arrays: list[Any]) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(_taken(item, is_operand, argument, arrays) for item in value)
    if value is None:
        return None
    is_array = isinstance(value, jax.Array | np.ndarray)
    if is_operand or (is_array and argument.kind == "other"):
        array = jnp.asarray(value)
        arrays.append(jax.lax.convert_element_type(array, array.dtype))
        return Slot(len(arrays) - 1)
    if argument.kind in ("dtype", "other") and not isinstance(value, torch.dtype):
        name = _dtype_name(value)
        return value if name is None else getattr(torch, PYTORCH_NAMES[NAME_OF_PYTORCH[name]])
    return value.item() if isinstance(value, np.generic) else value


def _dtype_name(value: Any) -> str | None:
    """The name of a dtype of JAX or numpy; None for other values."""
    if not isinstance(value, np.dtype | type) and not hasattr(value, "dtype"):
        return None
    try:
        name = jnp.dtype(value).name
    except TypeError:
        return None
    return name if name in NAME_OF_PYTORCH else None


def _key(value: Any) -> Any:
    """A value with its type, since 1, 1.0 and True are equal but lower differently."""
    if isinstance(value, list | tuple):
        return (type(value), *map(_key, value))
    return (type(value), value)


def _parameter(argument: Argument) -> inspect.Parameter:
    kind = (
        inspect.Parameter.KEYWORD_ONLY
        if argument.keyword_only
        else inspect.Parameter.POSITIONAL_OR_KEYWORD
    )
    default = argument.default if argument.has_default else inspect.Parameter.empty
    return inspect.Parameter(argument.name, kind, default=default)
