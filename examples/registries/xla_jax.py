"""The JAX function that xla.yaml names."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import xla_ops
from jax import lax

from composites.errors import UnsupportedCallError


def mx_mm(
    lhs: jax.Array, rhs: jax.Array, lhs_scale: jax.Array, rhs_scale: jax.Array, out_dtype: Any
) -> jax.Array:
    """`xla_ops.mx_mm`, with JAX's own composite `xla.scaled_dot`."""
    if not hasattr(lax, "scaled_dot"):
        raise UnsupportedCallError("this version of JAX has no jax.lax.scaled_dot")
    return lax.scaled_dot(
        _elements(lhs),
        _elements(rhs),
        lhs_scale=_scales(lhs_scale),
        rhs_scale=_scales(rhs_scale),
        dimension_numbers=(((1,), (1,)), ((), ())),
        preferred_element_type=jnp.dtype(xla_ops.NAMES[out_dtype]),
    )


def _elements(values: jax.Array) -> jax.Array:
    """`[N, K]`; bytes `[N, K / 2]` hold two elements each, the first in the low bits."""
    if values.dtype != jnp.uint8:
        return values
    return lax.bitcast_convert_type(values, jnp.float4_e2m1fn).reshape(values.shape[0], -1)


def _scales(exponents: jax.Array) -> jax.Array:
    return lax.bitcast_convert_type(exponents, jnp.float8_e8m0fnu)
