"""Rules of operators that make tensors from numbers."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from lowering.frontends.aten_in_jax.table import Rule, rule


@rule("aten::full", "aten::full_like", "aten::new_full")
def _full(dtype: Any, /, *shapes_and_value: Any, **_: Any) -> Any:
    *shapes, value = shapes_and_value
    return jnp.full(_shape(*shapes), value, dtype)


def _shape(first: Any, *shape: Any) -> Any:
    """The shape that is given, or else that of an array."""
    return shape[0] if shape else getattr(first, "shape", first)


def _filled(function: Callable[..., Any]) -> Rule:
    return lambda dtype, /, *shapes, **_: function(_shape(*shapes), dtype)


rule(
    "aten::zeros", "aten::empty.memory_format", "aten::_efficientzerotensor", "aten::zeros_like",
    "aten::empty_like", "aten::new_zeros", "aten::new_empty", "aten::new_empty_strided",
)(_filled(jnp.zeros))  # fmt: skip
rule("aten::ones", "aten::ones_like", "aten::new_ones")(_filled(jnp.ones))
rule("aten::scalar_tensor", "prims::scalar_tensor")(
    lambda dtype, /, value, **_: jnp.full((), value, dtype)
)


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
