"""Rules of operators that make tensors from numbers."""

from typing import Any

import jax.numpy as jnp

from lowering.frontends.aten_in_jax.table import rule

rule("aten::full")(lambda dtype, /, shape, value, **_: jnp.full(shape, value, dtype))


@rule("aten::zeros", "aten::empty.memory_format", "aten::_efficientzerotensor")
def _zeros(dtype: Any, /, shape: Any, **_: Any) -> Any:
    return jnp.zeros(shape, dtype)


rule("aten::ones")(lambda dtype, /, shape, **_: jnp.ones(shape, dtype))
rule("aten::scalar_tensor", "prims::scalar_tensor")(
    lambda dtype, /, value, **_: jnp.full((), value, dtype)
)


rule("aten::arange")(lambda dtype, /, end, **_: jnp.arange(end, dtype=dtype))


@rule("aten::arange.start", "aten::arange.start_step")
def _arange_from(dtype: Any, /, start: Any, end: Any, step: Any = 1, **_: Any) -> Any:
    return jnp.arange(start, end, step, dtype=dtype)


@rule("prims::iota")
def _iota(dtype: Any, /, length: Any, *, start: Any, step: Any, **_: Any) -> Any:
    return jnp.arange(length, dtype=dtype) * step + start


@rule("aten::eye", "aten::eye.m")
def _eye(dtype: Any, /, rows: Any, columns: Any = None, **_: Any) -> Any:
    return jnp.eye(rows, columns, dtype=dtype)
