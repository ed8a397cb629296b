"""Attention of `jax.nn` and of flax, in both of its interfaces."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from composites.errors import UnsupportedCallError
from lowering.jax_programs.functions.arguments import has_floats, is_array

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


def jax_attention(
    composite: Any,
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    *,
    scale: Any = None,
    is_causal: bool = False,
    query_seq_lengths: Any = None,
    key_value_seq_lengths: Any = None,
    local_window_size: Any = None,
    implementation: str | None = None,
    return_residual: bool = False,
) -> Any:
    """`jax.nn.dot_product_attention`."""
    if query_seq_lengths is not None or key_value_seq_lengths is not None:
        raise UnsupportedCallError("lengths of sequences are given")
    if local_window_size is not None:
        raise UnsupportedCallError("a local window is given")
    if implementation not in (None, "xla"):
        raise UnsupportedCallError(f"implementation is {implementation!r}")
    if return_residual:
        raise UnsupportedCallError("return_residual is set")
    if mask is not None and not (is_array(mask) and mask.dtype == bool):
        raise UnsupportedCallError("the mask is not an array of booleans")
    if _common_type(query, key, value).itemsize > 4:
        raise UnsupportedCallError("JAX computes the softmax of f64 in f32")
    options = {"scale": scale, "is_causal": is_causal, "implementation": implementation}
    keywords = {name: value for name, value in options.items() if value is not None}
    return _called(
        composite, (query, key, value), bias, mask, keywords, is_causal, _number_or_none(scale)
    )


def linen_attention(
    composite: Any,
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    broadcast_dropout: bool = True,
    dropout_rng: Any = None,
    dropout_rate: float = 0.0,
    deterministic: bool = False,
    dtype: Any = None,
    precision: Any = None,
    module: Any = None,
    force_fp32_for_softmax: bool = False,
    einsum_dot_general: Any = None,
    qk_attn_weights_einsum: Any = None,
    attn_weights_value_einsum: Any = None,
) -> Any:
    """`flax.linen.dot_product_attention`, which `MultiHeadDotProductAttention` calls."""
    products = (einsum_dot_general, qk_attn_weights_einsum, attn_weights_value_einsum)
    if any(product is not None for product in products):
        raise UnsupportedCallError("the program passes functions for products")
    options = {"force_fp32_for_softmax": True} if force_fp32_for_softmax else {}
    _check_flax((query, key, value), dropout_rate, deterministic, dtype, precision, module)
    return _called(composite, (query, key, value), bias, mask, options, is_causal=False)


def nnx_attention(
    composite: Any,
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    broadcast_dropout: bool = True,
    dropout_rng: Any = None,
    dropout_rate: float = 0.0,
    deterministic: bool = False,
    dtype: Any = None,
    precision: Any = None,
    module: Any = None,
    promote_dtype: Any = None,
    is_causal: bool = False,
) -> Any:
    """`flax.nnx.dot_product_attention`, which `MultiHeadAttention` calls.

    Without a dropout rate, it calls `jax.nn.dot_product_attention`. With a rate, its operations
    differ, even if nothing is dropped.
    """
    parameters = inspect.signature(composite.original).parameters
    if promote_dtype not in (None, parameters["promote_dtype"].default):
        raise UnsupportedCallError("the program passes a function for types")
    _check_flax((query, key, value), dropout_rate, deterministic, dtype, precision, module)
    if not dropout_rate and _common_type(query, key, value).itemsize > 4:
        raise UnsupportedCallError("JAX computes the softmax of f64 in f32")
    options = {"dropout_rate": dropout_rate, "deterministic": True} if dropout_rate else {}
    if is_causal:
        options["is_causal"] = True
    return _called(composite, (query, key, value), bias, mask, options, is_causal)


def _called(
    composite: Any,
    arrays: tuple[Any, Any, Any],
    bias: Any,
    mask: Any,
    options: dict[str, Any],
    is_causal: bool,
    scale: float | None = None,
) -> Any:
    """The composite of a function that adds a bias and then masks."""
    if not isinstance(is_causal, bool):
        raise UnsupportedCallError("is_causal is an array")
    _common_type(*arrays)
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


def _check_flax(
    arrays: tuple[Any, Any, Any],
    dropout_rate: float,
    deterministic: Any,
    dtype: Any,
    precision: Any,
    module: Any,
) -> None:
    """Refuse arguments of both interfaces of flax that the entry does not support."""
    import jax.numpy as jnp

    if module is not None:
        raise UnsupportedCallError("`module` is set, which stores the attention weights")
    if precision is not None:
        raise UnsupportedCallError("a precision is given")
    if not isinstance(dropout_rate, int | float):
        raise UnsupportedCallError("the rate of dropout is an array")
    if not isinstance(deterministic, bool) or (dropout_rate > 0 and not deterministic):
        raise UnsupportedCallError("the weights have dropout")
    if dtype is not None and _common_type(*arrays) != jnp.dtype(dtype):
        raise UnsupportedCallError("the operands have another type than the computation")


def _common_type(query: Any, key: Any, value: Any) -> Any:
    """The common type of three arrays of floats."""
    arrays = (query, key, value)
    if not all(map(has_floats, arrays)) or len({x.dtype for x in arrays}) > 1:
        raise UnsupportedCallError("the operands are not arrays of one floating-point type")
    if not all(x.ndim >= 3 for x in arrays):
        raise UnsupportedCallError("an operand has less than three dimensions")
    return query.dtype


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
