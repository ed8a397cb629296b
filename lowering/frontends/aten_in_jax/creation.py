"""Rules of operators that make tensors from numbers."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from lowering.frontends.aten_in_jax.table import Rule, rule


@rule("aten::full", "aten::new_full")
def _full(dtype: Any, /, first: Any, *further: Any, **_: Any) -> Any:
    if hasattr(first, "ndim"):  # aten::new_full
        return jnp.full(further[0], further[1], dtype)
    return jnp.full(first, further[0], dtype)


@rule("aten::full_like")
def _full_like(dtype: Any, /, x: Any, value: Any, **_: Any) -> Any:
    return jnp.full(x.shape, value, dtype)


def _of_shape(function: Callable[..., Any]) -> Rule:
    return lambda dtype, /, shape, **_: function(shape, dtype)


rule("aten::zeros", "aten::empty.memory_format", "aten::_efficientzerotensor")(_of_shape(jnp.zeros))
rule("aten::ones")(_of_shape(jnp.ones))


def _like(function: Callable[..., Any]) -> Rule:
    """An array of the shape of another one, unless a shape is given."""
    return lambda dtype, /, x, *shape, **_: function(shape[0] if shape else x.shape, dtype)


rule("aten::zeros_like", "aten::empty_like")(_like(jnp.zeros))
rule("aten::new_zeros", "aten::new_empty", "aten::new_empty_strided")(_like(jnp.zeros))
rule("aten::ones_like", "aten::new_ones")(_like(jnp.ones))


@rule("aten::scalar_tensor")
def _scalar_tensor(dtype: Any, /, value: Any, **_: Any) -> Any:
    return jnp.full((), value, dtype)


@rule("aten::arange")
def _arange(dtype: Any, /, end: Any, **_: Any) -> Any:
    return jnp.arange(end, dtype=dtype)


@rule("aten::arange.start", "aten::arange.start_step")
def _arange_from(dtype: Any, /, start: Any, end: Any, step: Any = 1, **_: Any) -> Any:
    return jnp.arange(start, end, step, dtype=dtype)


@rule("prims::iota")
def _iota(dtype: Any, /, length: Any, *, start: Any, step: Any, **_: Any) -> Any:
    return jnp.arange(length, dtype=dtype) * step + start


@rule("aten::eye", "aten::eye.m")
def _eye(dtype: Any, /, rows: Any, columns: Any = None, **_: Any) -> Any:
    return jnp.eye(rows, columns, dtype=dtype)
