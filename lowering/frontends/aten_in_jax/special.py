"""Rules of special functions that PyTorch decomposes no further."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import jax.scipy.special as jsp
import numpy as np
from jax import lax

from lowering.frontends.aten_in_jax.dtypes import opmath_dtype
from lowering.frontends.aten_in_jax.elementwise import as_type
from lowering.frontends.aten_in_jax.table import rule, rule_without_dtype

_IN_F32: dict[str, Callable[..., Any]] = {
    "aten::i0": jsp.i0, "aten::special_i0e": jsp.i0e, "aten::special_i1": jsp.i1,
    "aten::special_i1e": jsp.i1e, "aten::special_ndtri": jsp.ndtri,
    "aten::special_log_ndtr": jsp.log_ndtr, "prims::bessel_i0": jsp.i0,
    "prims::bessel_i0e": jsp.i0e, "prims::bessel_i1": jsp.i1, "prims::bessel_i1e": jsp.i1e,
    "prims::ndtri": jsp.ndtri, "aten::igamma": lax.igamma, "aten::igammac": lax.igammac,
    "aten::special_modified_bessel_i0": jsp.i0, "aten::special_modified_bessel_i1": jsp.i1,
    "aten::gcd": jnp.gcd, "aten::lcm": jnp.lcm,
}  # fmt: skip


def _in_f32(function: Callable[..., Any]) -> Callable[..., Any]:
    """A rule in at least f32: JAX does not have some of these functions in narrower types."""

    def run(dtype: Any, /, *operands: Any) -> Any:
        wide = opmath_dtype(dtype)
        return function(*jnp.broadcast_arrays(*(as_type(x, wide) for x in operands)))

    return run


for _name, _function in _IN_F32.items():
    rule(_name)(_in_f32(_function))
rule_without_dtype(jnp.nextafter, "aten::nextafter")


def _zeta(power: Any, x: Any) -> Any:
    """The sum of `(x + k) ** -power` over `k >= 0`. JAX's is wrong for `x` below -8, and at -1."""

    def has_terms(state: tuple[Any, Any]) -> Any:
        return jnp.any((state[0] < 1) & (state[0] != jnp.floor(state[0])))

    def add_term(state: tuple[Any, Any]) -> tuple[Any, Any]:
        y, total = state
        return jnp.where(y < 1, y + 1, y), jnp.where(y < 1, total + y**-power, total)

    is_pole = (x <= 0) & (x == jnp.floor(x)) & (power >= 1)
    y, total = lax.while_loop(has_terms, add_term, (x, jnp.zeros_like(x)))
    result = jnp.where(is_pole, jnp.inf, total + jsp.zeta(power, y))
    return jnp.where(power < 1, jnp.nan, result)


rule("aten::special_zeta", "prims::zeta")(_in_f32(_zeta))


_ERFCX = (
    1.177578934567401, -0.00459005458064666, -0.08424913336651792, 0.05920993999819178,
    -0.02665866843530583, 0.009074997670705144, -0.002413163540417642, 0.0004907758365258706,
    -6.916973302522242e-05, 4.139027986175313e-06, 7.740383065432766e-07, -2.188640106107434e-07,
    1.076499949837998e-08, 4.521959718545888e-09, -7.754400049934479e-10, -6.318093009488263e-11,
    2.868794893721236e-11, 1.945679119726222e-13, -9.653933704068946e-13, 3.237750865333358e-14,
    3.375801057668981e-14, -2.122269756482695e-15, -9.925291782323512e-16,
)  # fmt: skip
"""Chebyshev coefficients of `(1 + 2 x) * erfcx(x)` in `(x - 3.75) / (x + 3.75)`, for x >= 0."""


@rule("prims::erfcx", "aten::special_erfcx")
def _erfcx(dtype: Any, /, x: Any) -> Any:
    x = as_type(x, opmath_dtype(dtype))
    size = jnp.abs(x)
    t = 1 - 7.5 / (size + 3.75)
    sums = [jnp.zeros_like(x), jnp.zeros_like(x)]
    for number in reversed(_ERFCX):
        sums = [number + 2 * t * sums[0] - sums[1], sums[0]]
    result = (sums[0] - t * sums[1]) / (1 + 2 * size)
    return jnp.where(x < 0, 2 * jnp.exp(x * x) - result, result)


@rule("aten::polygamma")
def _polygamma(dtype: Any, /, order: int, x: Any) -> Any:
    x = as_type(x, jnp.promote_types(dtype, jnp.float32))
    if order > 1:
        factorial = jnp.exp(lax.lgamma(jnp.asarray(order + 1, x.dtype)))  # as in PyTorch
        return (-1) ** (order + 1) * factorial * _zeta(jnp.full_like(x, order + 1), x)
    return _trigamma(x) if order else lax.digamma(x)


def _trigamma(x: Any) -> Any:
    """The trigamma as PyTorch computes it. JAX's sum has no reflection, and is wrong below 0."""
    low = x < 0.5
    sine = jnp.sin(np.pi * x)
    y = jnp.where(low, 1 - x, x)
    total = jnp.zeros_like(x)
    for _ in range(6):
        total, y = total + 1 / (y * y), y + 1
    square = 1 / (y * y)
    series = 1 / 6 - square * (1 / 30 - square * (1 / 42))
    total = total + (1 + 1 / (2 * y) + square * series) / y
    return jnp.where(low, np.pi**2 / (sine * sine) - total, total)


rule_without_dtype(jnp.signbit, "aten::signbit")
rule_without_dtype(jnp.frexp, "aten::frexp.Tensor", "prims::frexp")
