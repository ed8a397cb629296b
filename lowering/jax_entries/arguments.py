"""The arguments of a call of an entry: arrays, separated from other values."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from composites.attribute_types import key_of
from composites.element_types import NAME_OF_PYTORCH, PYTORCH_NAMES
from composites.registry.operators import Argument
from lowering.jax_entries.definition import Definition


@dataclass(frozen=True)
class Slot:
    """The position of an array among the arrays of a call; it replaces the array."""

    number: int


def build_signature(definition: Definition) -> inspect.Signature:
    """The arguments of the operator or function that an entry catches; see `Definition`."""
    parameters = []
    for argument in definition.signature.arguments:
        kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
        if argument.keyword_only:
            kind = inspect.Parameter.KEYWORD_ONLY
        default = argument.default if argument.has_default else inspect.Parameter.empty
        parameters.append(inspect.Parameter(argument.name, kind, default=default))
    return inspect.Signature(parameters)


def split_arrays(
    definition: Definition, named: Mapping[str, Any]
) -> tuple[dict[str, Any], list[Any]]:
    """Arguments by name, with a `Slot` for each array, and the arrays."""
    values: dict[str, Any] = {}
    arrays: list[Any] = []
    for name, value in named.items():
        argument = definition.signature.argument(name)
        assert argument is not None
        is_operand = argument.kind in ("tensor", "tensors", "optional_tensors") or (
            argument.kind == "other" and name in definition.entry.operands
        )
        values[name] = _taken(value, is_operand, argument, arrays)
    return values, arrays


def _taken(value: Any, is_operand: bool, argument: Argument, arrays: list[Any]) -> Any:
    if isinstance(value, list | tuple):
        return rebuilt(value, [_taken(item, is_operand, argument, arrays) for item in value])
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


def rebuilt(value: Any, items: list[Any]) -> Any:
    """A list or tuple with other items. A named tuple takes each item as an argument."""
    make = getattr(value, "_make", type(value))
    return make(items)


def typed(value: Any) -> Any:
    """A value as a key; see `key_of`."""
    if isinstance(value, list | tuple):
        return (type(value), *map(typed, value))
    return key_of(value)
