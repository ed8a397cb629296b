"""Attention of `jax.nn` and of flax, in both of its interfaces."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from composites.errors import UnsupportedCallError
from lowering.jax_programs.functions.arguments import has_floats, is_array

Arrays = tuple[Any, Any, Any]
"""Query, key and value."""
Options = tuple[tuple[str, Any], ...]
"""Keyword arguments that are not arrays."""


@dataclass(frozen=True)
class _Attention:
    """An attention function with its options, as a function of the composite's arrays."""

    function: Callable[..., Any]
    options: Options
    has_bias: bool
    has_mask: bool

    def __call__(self, query: Any, key: Any, value: Any, *added: Any) -> Any:
        # The composite's operands are followed by a mask and a bias, if there are any.
        further = iter(added)
        mask = next(further) if self.has_mask else None
        bias = next(further) if self.has_bias else None
        return self.function(query, key, value, bias=bias, mask=mask, **dict(self.options))


def jax_attention(composite: Any, *arguments: Any, **keywords: Any) -> Any:
    """`jax.nn.dot_product_attention`."""
    names = ("scale", "is_causal", "implementation")
    arrays, bias, mask, passed = _passed(composite, arguments, keywords, names)
    if passed["implementation"] not in (None, "xla"):
        raise UnsupportedCallError(f"implementation is {passed['implementation']!r}")
    if mask is not None and not (is_array(mask) and mask.dtype == bool):
        raise UnsupportedCallError("the mask is not an array of booleans")
    if _common_type(arrays).itemsize > 4:
        raise UnsupportedCallError("JAX computes the softmax of f64 in f32")
    options = {name: passed[name] for name in names if passed[name] is not None}
    scale = _number_or_none(passed["scale"])
    return _called(composite, arrays, bias, mask, options, passed["is_causal"], scale)


def flax_attention(composite: Any, *arguments: Any, **keywords: Any) -> Any:
    """`dot_product_attention` of flax.linen and flax.nnx, which modules of attention call.

    Without a dropout rate, flax.nnx calls `jax.nn.dot_product_attention`. With a rate, its
    operations differ, even if nothing is dropped.
    """
    import jax.numpy as jnp

    names = ("dtype", "is_causal", "force_fp32_for_softmax")
    dropout = ("dropout_rate", "deterministic", "broadcast_dropout", "dropout_rng")
    arrays, bias, mask, passed = _passed(composite, arguments, keywords, (*names, *dropout))
    rate, deterministic = passed["dropout_rate"], passed["deterministic"]
    if not isinstance(rate, int | float):
        raise UnsupportedCallError("the rate of dropout is an array")
    if not isinstance(deterministic, bool) or (rate > 0 and not deterministic):
        raise UnsupportedCallError("the weights have dropout")
    dtype = _common_type(arrays)
    if passed["dtype"] is not None and dtype != jnp.dtype(passed["dtype"]):
        raise UnsupportedCallError("the operands have another type than the computation")
    options: dict[str, Any] = {name: True for name in names[1:] if passed.get(name)}
    if composite.original.__module__.startswith("flax.nnx"):
        if not rate and dtype.itemsize > 4:
            raise UnsupportedCallError("JAX computes the softmax of f64 in f32")
        options |= {"dropout_rate": rate, "deterministic": True} if rate else {}
    return _called(composite, arrays, bias, mask, options, passed.get("is_causal", False))


def _passed(
    composite: Any,
    arguments: tuple[Any, ...],
    keywords: dict[str, Any],
    names: Sequence[str],
) -> tuple[Arrays, Any, Any, dict[str, Any]]:
    """The operands, the bias, the mask and further arguments of a call.

    Args:
        names: the names of the further arguments that may have another value than their default.
    """
    bound = inspect.signature(composite.original).bind(*arguments, **keywords)
    for name, value in bound.arguments.items():
        default = bound.signature.parameters[name].default
        is_allowed = name in ("query", "key", "value", "bias", "mask", *names)
        if not is_allowed and value is not None and value is not default:
            raise UnsupportedCallError(f"{name} is set")
    bound.apply_defaults()
    query, key, value, bias, mask, *_ = bound.arguments.values()
    return (query, key, value), bias, mask, bound.arguments


def _called(
    composite: Any,
    arrays: Arrays,
    bias: Any,
    mask: Any,
    options: dict[str, Any],
    is_causal: bool,
    scale: float | None = None,
) -> Any:
    """The composite of a function that adds a bias and then masks."""
    if not isinstance(is_causal, bool):
        raise UnsupportedCallError("is_causal is an array")
    _common_type(arrays)
    if bias is not None and not has_floats(bias):
        raise UnsupportedCallError("the bias is not an array of floats")
    boolean = None if mask is None else _boolean(mask)
    attention = _Attention(
        composite.original, tuple(options.items()), bias is not None, mask is not None
    )
    added = (bias, None) if mask is None else (boolean, bias)
    ranks = {array.ndim for array in (*arrays, *added) if array is not None}
    return composite(
        *arrays,
        *added,
        is_causal=is_causal,
        scale=scale,
        decomposition=attention,
        many={(3,): "stacked", (4,): "merged"}.get(tuple(ranks)),
    )


def _common_type(arrays: Arrays) -> Any:
    """The common type of three arrays of floats."""
    if not all(map(has_floats, arrays)) or len({x.dtype for x in arrays}) > 1:
        raise UnsupportedCallError("the operands are not arrays of one floating-point type")
    if not all(x.ndim >= 3 for x in arrays):
        raise UnsupportedCallError("an operand has less than three dimensions")
    return arrays[0].dtype


def _boolean(mask: Any) -> Any:
    """A mask of booleans. Masks of flax may be numbers, where 0 excludes."""
    if not is_array(mask):
        raise UnsupportedCallError("the mask is not an array")
    return mask if mask.dtype == bool else mask != 0


def _number_or_none(scale: Any) -> float | None:
    import numpy as np

    if scale is None:
        return None
    if isinstance(scale, bool) or not isinstance(scale, int | float | np.number):
        raise UnsupportedCallError("scale is an array")
    return float(scale)
