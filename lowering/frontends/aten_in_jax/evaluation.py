"""Running the rules of operators on JAX arrays."""

from collections.abc import Mapping
from typing import Any

import jax
import torch

from composites.torch_internals import pytree
from lowering.frontends.aten_in_jax.dtypes import jax_dtype
from lowering.frontends.aten_in_jax.table import rule_of


def result_of(
    target: Any,
    described: Any,
    arguments: tuple[Any, ...],
    keywords: dict[str, Any],
) -> Any:
    """The results of a node for arrays.

    Args:
        described: its results as PyTorch describes them.

    Raises:
        NoRuleError: the operator has no rule.
    """
    if getattr(target, "__module__", None) == "_operator":  # also arithmetic of sizes
        return target(*arguments)
    dtypes = pytree.tree_map(_dtype, described)
    scalar = _is_scalar_with_dims(target, arguments, keywords)
    if scalar:
        arguments, keywords = jax.tree.map(_as_vector, (arguments, keywords))
    results = _cast(rule_of(target)(dtypes, *arguments, **keywords), dtypes)
    return _shaped(results, described) if scalar else results


_DIMS = frozenset(["dim", "dims", "dim0", "dim1", "dimension"])
"""Names of arguments that are dimensions of the first operand."""


def _is_scalar_with_dims(
    target: Any, arguments: tuple[Any, ...], keywords: Mapping[str, Any]
) -> bool:
    """Return whether a call names dimensions of an operand that has none. PyTorch takes it for a
    vector of one element then, and the rules do not need to know."""
    first = arguments[0] if arguments else None
    if getattr(first, "ndim", None) != 0:
        return False
    schema = getattr(target, "_schema", None)
    for place, argument in enumerate(schema.arguments if schema is not None else ()):
        if argument.name in _DIMS:
            at = arguments[place] if place < len(arguments) else argument.default_value
            if keywords.get(argument.name, at) not in (None, [], ()):
                return True
    return False


def _as_vector(value: Any) -> Any:
    return value.reshape(1) if getattr(value, "ndim", None) == 0 else value


def _shaped(results: Any, described: Any) -> Any:
    if isinstance(described, tuple | list):
        return [_shaped(x, one) for x, one in zip(results, described, strict=True)]
    return results.reshape(tuple(described.shape))


def _dtype(value: Any) -> Any:
    return jax_dtype(value.dtype) if isinstance(value, torch.Tensor) else value


def _cast(results: Any, dtypes: Any) -> Any:
    if isinstance(dtypes, tuple | list):
        return [_cast(x, dtype) for x, dtype in zip(results, dtypes, strict=True)]
    if results is None or results.dtype == dtypes:
        return results
    return results.astype(dtypes)
