"""Rules of elementwise operators."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import lax
from jax.export import is_symbolic_dim

from lowering.frontends.aten_in_jax.dtypes import common_dtype, jax_dtype, opmath_dtype
from lowering.frontends.aten_in_jax.table import rule, rule_without_dtype


def as_type(value: Any, dtype: Any) -> Any:
    """An array, a number or a symbolic size in a dtype. A number stays a literal of the
    program."""
    if is_symbolic_dim(value):
        value = jnp.asarray(value)
    if hasattr(value, "ndim"):
        return value if value.dtype == dtype else value.astype(dtype)
    with np.errstate(over="ignore"):  # infinity, as in PyTorch
        return np.asarray(value).astype(dtype)[()]


def _scaling_dtype(dtype: Any, *operands: Any) -> Any:
    """The type in which PyTorch's kernels multiply and divide by numbers: f32 for a narrow type
    that cannot represent one of them, such as 0.1 in bf16. Tensors without dimensions are numbers
    too."""
    wide = opmath_dtype(dtype)

    def is_rounded(value: Any) -> bool:
        if hasattr(value, "ndim"):
            return not value.ndim and value.dtype not in (dtype, jnp.bool_)
        return bool(is_symbolic_dim(value)) or float(as_type(value, dtype)) != value

    return wide if wide != dtype and any(map(is_rounded, operands)) else dtype


def _in_type(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a rule that computes in the dtype of the result."""
    return lambda dtype, *operands: function(*(as_type(x, dtype) for x in operands))


def _sign(x: Any) -> Any:
    """The sign as PyTorch computes it: 0 for NaN and -0.0."""
    if not jnp.issubdtype(x.dtype, jnp.floating):
        return x if x.dtype == jnp.bool_ else jnp.sign(x)
    return (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype)


def _exp2(x: Any) -> Any:
    """In f32 for narrow types, in which XLA would multiply by the logarithm of 2."""
    return jnp.exp2(x.astype(opmath_dtype(x.dtype))).astype(x.dtype)


def _digamma(x: Any) -> Any:
    pole = jnp.copysign(as_type(jnp.inf, x.dtype), -x)  # lax.digamma is -inf at -0.0 too
    return jnp.where(x == 0, pole, lax.digamma(x))


_UNARY: dict[str, Callable[[Any], Any]] = {
    "acos": jnp.arccos, "acosh": jnp.arccosh, "asin": jnp.arcsin, "asinh": jnp.arcsinh,
    "atan": jnp.arctan, "atanh": jnp.arctanh, "bitwise_not": jnp.bitwise_not, "ceil": jnp.ceil,
    "cos": jnp.cos, "cosh": jnp.cosh, "digamma": _digamma, "erf": lax.erf, "erfc": lax.erfc,
    "erfinv": lax.erf_inv, "exp": jnp.exp, "exp2": _exp2, "expm1": jnp.expm1,
    "floor": jnp.floor, "lgamma": lax.lgamma, "log": jnp.log, "log10": jnp.log10,
    "log1p": jnp.log1p, "log2": jnp.log2, "neg": jnp.negative, "reciprocal": jnp.reciprocal,
    "relu": lambda x: jnp.maximum(x, as_type(0, x.dtype)), "rsqrt": lax.rsqrt,
    "sigmoid": jax.nn.sigmoid, "sign": _sign, "sin": jnp.sin, "sinh": jnp.sinh,
    "sqrt": jnp.sqrt, "tan": jnp.tan, "tanh": jnp.tanh, "trunc": jnp.trunc, "round": jnp.round,
    "conj_physical": jnp.conj, "sgn": _sign, "_neg_view": jnp.negative,
    "_neg_view_copy": jnp.negative, "_conj": jnp.conj, "_conj_copy": jnp.conj,
    "_conj_physical": jnp.conj, "resolve_conj": jnp.conj,
}  # fmt: skip
for _name, _function in _UNARY.items():
    rule(f"aten::{_name}")(_in_type(_function))

_IN_OPERAND_TYPE: dict[str, Callable[[Any], Any]] = {
    "abs": jnp.abs, "isinf": jnp.isinf, "isnan": jnp.isnan, "imag": jnp.imag, "real": jnp.real,
    "logical_not": jnp.logical_not,
    # PyTorch's angle of -0.0 is 0.
    "angle": lambda x: jnp.angle(x if jnp.iscomplexobj(x) else jnp.where(x == 0, jnp.abs(x), x)),
}  # fmt: skip
for _name, _function in _IN_OPERAND_TYPE.items():
    rule_without_dtype(_function, f"aten::{_name}")


def _log_add_exp(a: Any, b: Any) -> Any:
    """Phases are not wrapped to [-pi, pi], as they are in JAX."""
    if not jnp.iscomplexobj(a):
        return jnp.logaddexp(a, b)
    a, b = jnp.broadcast_arrays(a, b)
    low, high = lax.select(a.real < b.real, a, b), lax.select(a.real < b.real, b, a)
    same = jnp.isinf(high.real) & (low.real == high.real)
    return jnp.where(same, low, high + jnp.log1p(jnp.exp(low - high)))


def _compared(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def run(dtype: Any, a: Any, b: Any) -> Any:
        common = common_dtype(a, b)
        return function(as_type(a, common), as_type(b, common))

    return run


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "maximum": jnp.maximum, "minimum": jnp.minimum, "atan2": jnp.arctan2, "fmax": jnp.fmax,
    "fmin": jnp.fmin, "floor_divide": jnp.floor_divide, "copysign.Tensor": jnp.copysign,
    "logaddexp": _log_add_exp, "hypot": jnp.hypot, "true_divide.Tensor": jnp.true_divide,
}  # fmt: skip
_WITH_NUMBERS: dict[str, Callable[[Any, Any], Any]] = {
    "bitwise_and": jnp.bitwise_and, "bitwise_or": jnp.bitwise_or,
    "bitwise_xor": jnp.bitwise_xor, "fmod": jnp.fmod, "remainder": jnp.remainder,
    "__lshift__": jnp.left_shift, "__rshift__": jnp.right_shift,
}  # fmt: skip
_COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    "eq": jnp.equal, "ge": jnp.greater_equal, "gt": jnp.greater, "le": jnp.less_equal,
    "lt": jnp.less, "ne": jnp.not_equal,
}  # fmt: skip
for _name, _both in _BINARY.items():
    rule(f"aten::{_name}")(_in_type(_both))
for _name, _both in _WITH_NUMBERS.items():
    rule(f"aten::{_name}.Tensor", f"aten::{_name}.Scalar")(_in_type(_both))
for _name, _both in _COMPARED.items():
    rule(f"aten::{_name}.Tensor", f"aten::{_name}.Scalar")(_compared(_both))
# PyTorch decomposes `bitwise_left_shift`, `bitwise_right_shift` and `remainder` of a number into
# these operators.
rule("prims::remainder")(_in_type(jnp.remainder))
rule("prims::shift_left")(_in_type(jnp.left_shift))
rule("prims::shift_right_arithmetic")(_in_type(jnp.right_shift))


def _power(a: Any, b: Any) -> Any:
    power = jnp.power(a, b)
    if not _is_integer(power.dtype):
        return power
    return jnp.where((b < 0) & (a != 1) & (a + 1 != 0), 0, power)  # a fraction, rounded to zero


rule("aten::pow.Tensor_Tensor", "aten::pow.Scalar")(_in_type(_power))
rule_without_dtype(jnp.logical_and, "aten::logical_and")
rule_without_dtype(jnp.logical_or, "aten::logical_or")
rule_without_dtype(jnp.logical_xor, "aten::logical_xor")


@rule("aten::mul.Tensor", "aten::mul.Scalar")
def _mul(dtype: Any, /, a: Any, b: Any) -> Any:
    """A product. XLA would compute the product of a number and a converted boolean by selecting the
    number or 0, even if the number is infinite or NaN."""
    number, b = (b, a) if _is_boolean(a) else (a, b)
    a = as_type(number, dtype)
    if _is_boolean(b) and jnp.issubdtype(dtype, jnp.inexact):
        return jnp.where(b, a, a * as_type(0, dtype))
    wide = _scaling_dtype(dtype, number, b)
    return jnp.multiply(as_type(number, wide), as_type(b, wide)).astype(dtype)


def _is_boolean(value: Any) -> bool:
    return bool(getattr(value, "dtype", None) == jnp.bool_)


def _scaled(b: Any, alpha: Any, dtype: Any) -> Any:
    b = as_type(b, dtype)
    return b if alpha == 1 else b * as_type(alpha, dtype)


@rule("aten::add.Tensor", "aten::add.Scalar")
def _add(dtype: Any, /, a: Any, b: Any, alpha: Any = 1) -> Any:
    wide = _scaling_dtype(dtype, alpha)
    return jnp.add(as_type(a, wide), _scaled(b, alpha, wide)).astype(dtype)


@rule("aten::sub.Tensor", "aten::sub.Scalar")
def _sub(dtype: Any, /, a: Any, b: Any, alpha: Any = 1) -> Any:
    wide = _scaling_dtype(dtype, alpha)
    return jnp.subtract(as_type(a, wide), _scaled(b, alpha, wide)).astype(dtype)


@rule("aten::rsub.Scalar", "aten::rsub.Tensor")
def _rsub(dtype: Any, /, a: Any, b: Any, alpha: Any = 1) -> Any:
    return _sub(dtype, b, a, alpha)


@rule("aten::div.Tensor", "aten::div.Scalar")
def _div(dtype: Any, /, a: Any, b: Any) -> Any:
    wide = _scaling_dtype(dtype, a, b)
    return jnp.true_divide(as_type(a, wide), as_type(b, wide)).astype(dtype)


@rule("aten::round.decimals")
def _round_decimals(dtype: Any, /, x: Any, *, decimals: int) -> Any:
    x, scale = as_type(x, opmath_dtype(dtype)), 10.0 ** abs(decimals)
    if decimals < 0:
        return (jnp.round(x / scale) * scale).astype(dtype)
    return (jnp.round(x * scale) / scale).astype(dtype)


@rule("aten::div.Tensor_mode", "aten::div.Scalar_mode")
def _div_mode(dtype: Any, /, a: Any, b: Any, rounding_mode: str | None = None) -> Any:
    a, b = as_type(a, dtype), as_type(b, dtype)
    if rounding_mode == "floor":
        return jnp.floor_divide(a, b)
    if rounding_mode == "trunc":
        return lax.div(*jnp.broadcast_arrays(a, b)) if _is_integer(dtype) else jnp.trunc(a / b)
    return jnp.true_divide(a, b)


def _is_integer(dtype: Any) -> bool:
    return bool(jnp.issubdtype(dtype, jnp.integer))


@rule("aten::pow.Tensor_Scalar")
def _pow_scalar(dtype: Any, /, x: Any, exponent: Any) -> Any:
    x = as_type(x, dtype)
    if isinstance(exponent, complex):
        return jnp.power(x, as_type(exponent, dtype))
    if float(exponent).is_integer() and abs(exponent) <= 64:
        # A power of f16 can overflow where its reciprocal is a number.
        return lax.integer_pow(x.astype(opmath_dtype(dtype)), int(exponent)).astype(dtype)
    if exponent == 0.5:
        return jnp.sqrt(x)
    return jnp.power(x, as_type(exponent, dtype))


@rule("aten::where.self", "aten::where.ScalarOther", "aten::where.ScalarSelf", "aten::where.Scalar")
def _where(dtype: Any, /, condition: Any, a: Any, b: Any) -> Any:
    return jnp.where(condition, as_type(a, dtype), as_type(b, dtype))


@rule("aten::masked_fill.Scalar", "aten::masked_fill.Tensor")
def _masked_fill(dtype: Any, /, x: Any, mask: Any, value: Any) -> Any:
    return jnp.where(mask, as_type(value, dtype), x)


def _as_bound(value: Any, dtype: Any) -> Any:
    """A number outside of an integer type becomes the nearest number of the type."""
    if _is_integer(dtype) and not hasattr(value, "ndim") and not is_symbolic_dim(value):
        limits = jnp.iinfo(dtype)
        value = min(max(value, int(limits.min)), int(limits.max))
    return as_type(value, dtype)


@rule("aten::clamp", "aten::clamp.Tensor", "aten::clamp_min", "aten::clamp_min.Tensor")
def _clamp(dtype: Any, /, x: Any, low: Any = None, high: Any = None) -> Any:
    x = as_type(x, dtype)
    if low is not None:
        x = jnp.maximum(x, _as_bound(low, dtype))
    return x if high is None else jnp.minimum(x, _as_bound(high, dtype))


rule("aten::clamp_max", "aten::clamp_max.Tensor")(
    lambda dtype, /, x, high: _clamp(dtype, x, None, high)
)


@rule("aten::_to_copy", "prims::convert_element_type", "aten::to.dtype")
def _to_copy(dtype: Any, /, x: Any, *further: Any, **_: Any) -> Any:
    """The operand in another type. XLA has NaN for numbers beyond f8E4M3FN, as PyTorch before
    2.12; later ones have the greatest number. XLA has the nearest unsigned number for numbers
    outside of the type; PyTorch has the last bits, as this rule for numbers within i32."""
    if dtype in (jnp.uint8, jnp.uint16) and jnp.issubdtype(x.dtype, jnp.floating):
        x = x.astype(jnp.int32)
    if dtype == jnp.float8_e4m3fn and torch.__version__ >= "2.12":  # compares as versions
        wide = x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(jnp.float32)
        x = jnp.clip(wide, -448, 448)
    return as_type(x, dtype)


@rule("aten::view.dtype")
def _bits(dtype: Any, /, x: Any, element_type: Any) -> Any:
    """Bits as another type. JAX cannot convert booleans and complex numbers. If an element becomes
    several, JAX adds a dimension for them, and PyTorch extends the last one; if several elements
    become one, JAX removes a dimension."""
    to = jnp.dtype(jax_dtype(element_type))
    if x.dtype == to:
        return x
    if x.dtype == jnp.bool_:
        x = x.astype(jnp.uint8)
    if jnp.iscomplexobj(x):
        x = jnp.stack([x.real, x.imag], -1).reshape(*x.shape[:-1], 2 * x.shape[-1])
    if to == jnp.bool_:
        return _bits(dtype, x, torch.uint8) != 0
    if jnp.issubdtype(to, jnp.complexfloating):
        parts = _bits(dtype, x, _PART_TYPES[element_type])
        return lax.complex(parts[..., ::2], parts[..., 1::2])
    if to.itemsize > x.dtype.itemsize:
        parts = to.itemsize // x.dtype.itemsize
        x = x.reshape(*x.shape[:-1], x.shape[-1] // parts, parts)
    bits = lax.bitcast_convert_type(x, to)
    if to.itemsize < x.dtype.itemsize:
        bits = bits.reshape(*x.shape[:-1], x.shape[-1] * bits.shape[-1])
    return bits


_PART_TYPES = {torch.complex64: torch.float32, torch.complex128: torch.float64}


@rule("aten::hardshrink_backward", "aten::softshrink_backward")
def _shrink_backward(dtype: Any, /, grad: Any, x: Any, bound: Any) -> Any:
    bound = as_type(bound, x.dtype)
    return jnp.where((x >= -bound) & (x <= bound), as_type(0, dtype), grad)


@rule("aten::round.decimals")
def _round(dtype: Any, /, x: Any, *, decimals: int) -> Any:
    if decimals == 0 or _is_integer(dtype):
        return jnp.round(x)
    scale = as_type(10.0 ** abs(decimals), dtype)
    return jnp.round(x * scale) / scale if decimals > 0 else jnp.round(x / scale) * scale


@rule("aten::complex")
def _complex(dtype: Any, /, real: Any, imaginary: Any) -> Any:
    return lax.complex(*jnp.broadcast_arrays(real, imaginary))
