"""Rules of operators that reduce dimensions, and of scans and sorts along one dimension."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
from jax import lax
from jax.export import is_symbolic_dim

from lowering.frontends.aten_in_jax.dtypes import opmath_dtype
from lowering.frontends.aten_in_jax.elementwise import as_type
from lowering.frontends.aten_in_jax.table import Rule, rule


def _axes(x: Any, dims: Any) -> tuple[int, ...]:
    """Dimensions as non-negative numbers; all dimensions if none are listed, as in PyTorch."""
    if dims is None or (not isinstance(dims, int) and not dims):
        return tuple(range(x.ndim))
    listed = (dims,) if isinstance(dims, int) else dims
    return tuple(d % x.ndim for d in listed)


def _axes_of_logic(x: Any, dims: Any) -> tuple[int, ...]:
    """The axes of `any` and `all`, which reduce no axis if none is listed."""
    return () if isinstance(dims, list | tuple) and not dims else _axes(x, dims)


@rule("aten::sum", "aten::sum.dim_IntList", "prims::sum")
def _sum(dtype: Any, /, x: Any, dims: Any = None, keepdim: bool = False, **_: Any) -> Any:
    wide = opmath_dtype(dtype)  # XLA:CPU would sum several dimensions in bf16
    total = jnp.sum(as_type(x, wide), _axes(x, dims), dtype=wide, keepdims=keepdim)
    return total.astype(dtype)


def _reduction(
    function: Callable[..., Any], axes: Callable[[Any, Any], Any] = _axes, *, wide: bool = False
) -> Rule:
    """A reduction over axes, in the type of the operand; if `wide`, in the type of the result."""

    def run(dtype: Any, /, x: Any, dims: Any = None, keepdim: bool = False, **_: Any) -> Any:
        return function(as_type(x, dtype) if wide else x, axes(x, dims), keepdims=keepdim)

    return run


rule("aten::mean", "aten::mean.dim")(_reduction(jnp.mean, wide=True))
rule("aten::prod", "aten::prod.dim_int")(_reduction(jnp.prod, wide=True))
rule("aten::amax", "aten::max")(_reduction(jnp.max))
rule("aten::amin", "aten::min")(_reduction(jnp.min))
rule("aten::any", "aten::any.dim", "aten::any.dims")(_reduction(jnp.any, _axes_of_logic))
rule("aten::all", "aten::all.dim", "aten::all.dims", "aten::_is_all_true")(
    _reduction(jnp.all, _axes_of_logic)
)
rule("aten::argmax")(_reduction(jnp.argmax, lambda x, dim: dim))
rule("aten::argmin")(_reduction(jnp.argmin, lambda x, dim: dim))


def _extreme(function: Callable[..., Any], find_index: Callable[..., Any]) -> Rule:
    """The extremes along one dimension, and their indices."""

    def run(dtypes: Any, /, x: Any, dim: int, keepdim: bool = False) -> Any:
        return function(x, dim, keepdims=keepdim), find_index(x, dim, keepdims=keepdim)

    return run


rule("aten::max.dim")(_extreme(jnp.max, jnp.argmax))
rule("aten::min.dim")(_extreme(jnp.min, jnp.argmin))


@rule("aten::var_mean.correction")
def _moments(
    dtypes: Any, /, x: Any, dims: Any = None, *, correction: Any = None, keepdim: bool = False
) -> tuple[Any, Any]:
    """Variance and mean, in f32 if `x` is f16 or bf16."""
    x = x.astype(opmath_dtype(x.dtype))
    axes = _axes(x, dims)
    mean = jnp.mean(x, axes, keepdims=True)
    count = 1
    for axis in axes:
        count = count * x.shape[axis]
    distance = x - mean
    squares = jnp.sum(jnp.real(distance * jnp.conj(distance)), axes, keepdims=True)
    left = count - (1 if correction is None else correction)
    variance = squares / as_type(
        max(left, 0) if isinstance(left, int | float) else left, squares.dtype
    )
    if keepdim:
        return variance, mean
    return jnp.squeeze(variance, axes), jnp.squeeze(mean, axes)


rule("aten::var.correction")(lambda dtype, *call, **named: _moments(None, *call, **named)[0])
rule("aten::std.correction")(
    lambda dtype, *call, **named: jnp.sqrt(_moments(None, *call, **named)[0])
)


def _scan(function: Callable[..., Any], whole: Callable[..., Any], neutral: int) -> Rule:
    """A scan in the type of its result. If the size is a symbol, JAX's scans are windows whose size
    StableHLO's passes do not refine, so all positions are compared with each other.

    Args:
        whole: the reduction of a whole dimension.
        neutral: the number that does not change a result.
    """

    def scan(dtype: Any, /, x: Any, dim: int, **_: Any) -> Any:
        wide = opmath_dtype(dtype)
        values, axis = as_type(x, wide), dim % max(x.ndim, 1)
        if not (x.ndim and is_symbolic_dim(x.shape[axis])):
            return function(values, dim).astype(dtype)
        last = jnp.moveaxis(values, axis, -1)[..., None, :]
        positions = jnp.arange(x.shape[axis])
        seen = jnp.where(positions <= positions[:, None], last, jnp.asarray(neutral, wide))
        return jnp.moveaxis(whole(seen, -1), -1, axis).astype(dtype)

    return scan


rule("aten::cumsum")(_scan(jnp.cumsum, jnp.sum, 0))
rule("aten::cumprod")(_scan(jnp.cumprod, jnp.prod, 1))


def _running(function: Any, dtypes: Any, /, x: Any, dim: int) -> tuple[Any, Any]:
    """Running extremes, and the last index of each. After a NaN, the extreme is NaN."""
    axis = dim % x.ndim
    wide = x.astype(jnp.int32) if x.dtype == jnp.bool_ else x
    values = function(wide, axis=axis)
    numbers = lax.broadcasted_iota(dtypes[1], x.shape, axis)
    if jnp.issubdtype(x.dtype, jnp.floating):
        missing = jnp.isnan(wide)
        seen = lax.cummax(missing.astype(jnp.int32), axis=axis) > 0
        values = jnp.where(seen, jnp.asarray(jnp.nan, x.dtype), values)
        reached = jnp.where(seen, missing, wide == values)
    else:
        reached = wide == values
    positions = lax.cummax(jnp.where(reached, numbers, jnp.asarray(0, dtypes[1])), axis=axis)
    return values, positions


rule("aten::cummax")(partial(_running, lax.cummax))
rule("aten::cummin")(partial(_running, lax.cummin))
rule("aten::logcumsumexp")(lambda dtype, x, dim: lax.cumlogsumexp(x, axis=dim % x.ndim))


@rule("aten::sort", "aten::sort.stable")
def _sorted(
    dtypes: Any, /, x: Any, dim: int = -1, descending: bool = False, *, stable: bool | None = None
) -> Any:
    axis = dim % x.ndim
    numbers = lax.broadcasted_iota(jnp.int32, x.shape, axis)
    keys = _keys(x, descending=descending)
    _, order, values = lax.sort((keys, numbers, x), dimension=axis, num_keys=1)
    return values, order.astype(dtypes[1])


def _keys(x: Any, *, descending: bool) -> Any:
    """Integers in the order of numbers, so that one comparison sorts. Zeros are equal, and so are
    NaNs, which are the greatest numbers, as in PyTorch."""
    keys = x
    if x.dtype == jnp.bool_:
        keys = x.astype(jnp.int8)
    elif jnp.issubdtype(x.dtype, jnp.floating):
        width = jnp.finfo(x.dtype).bits
        integer = jnp.dtype(f"int{width}")
        bits = lax.bitcast_convert_type(_with_one_nan(jnp.where(x == 0, 0, x)), integer)
        keys = jnp.where(bits < 0, bits ^ jnp.iinfo(integer).max, bits)
    return ~keys if descending else keys


def _with_one_nan(x: Any) -> Any:
    return jnp.where(jnp.isnan(x), jnp.asarray(jnp.nan, x.dtype), x)


@rule("aten::topk")
def _topk(
    dtypes: Any, /, x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> Any:
    axis = dim % x.ndim
    is_real = x.dtype != jnp.bool_ and not jnp.issubdtype(x.dtype, jnp.unsignedinteger)
    if is_real and not any(map(is_symbolic_dim, x.shape)):  # compilers have operators for `top_k`
        return _greatest(dtypes, x, k, axis) if largest else _least(dtypes, x, k, axis)
    values, order = _sorted(dtypes, x, dim, largest)
    return lax.slice_in_dim(values, 0, k, axis=axis), lax.slice_in_dim(order, 0, k, axis=axis)


def _greatest(dtypes: Any, /, x: Any, k: int, axis: int) -> Any:
    if jnp.issubdtype(x.dtype, jnp.floating):
        x = _with_one_nan(x)
    values, order = lax.top_k(jnp.moveaxis(x, axis, -1), k)
    return jnp.moveaxis(values, -1, axis), jnp.moveaxis(order, -1, axis).astype(dtypes[1])


def _least(dtypes: Any, /, x: Any, k: int, axis: int) -> Any:
    if not jnp.issubdtype(x.dtype, jnp.floating):
        values, order = _greatest(dtypes, ~x, k, axis)
        return ~values, order
    # The negative of the greatest NaN is the least number.
    values, order = lax.top_k(jnp.moveaxis(-_with_one_nan(x), axis, -1), k)
    return jnp.moveaxis(-values, -1, axis), jnp.moveaxis(order, -1, axis).astype(dtypes[1])


@rule("aten::median")
def _median(dtype: Any, /, x: Any) -> Any:
    """The median: the lower of two middle values, or NaN if any value is NaN."""
    values = jnp.sort(x.reshape(-1))  # NaN comes last
    middle = values[(values.shape[0] - 1) // 2]
    if not jnp.issubdtype(dtype, jnp.floating):
        return middle
    return jnp.where(jnp.isnan(values[-1]), values[-1], middle)


@rule("aten::nanmedian")
def _nanmedian(dtype: Any, /, x: Any) -> Any:
    values = jnp.sort(x.reshape(-1))
    if not jnp.issubdtype(dtype, jnp.floating):
        return values[(values.shape[0] - 1) // 2]
    return values[jnp.maximum(jnp.sum(~jnp.isnan(values)) - 1, 0) // 2]


@rule("aten::nanmedian.dim")
def _nanmedian_dim(dtypes: Any, /, x: Any, dim: int, keepdim: bool = False) -> Any:
    values, order = _sorted(dtypes, x, dim, False)
    present = x.shape[dim] if not jnp.issubdtype(x.dtype, jnp.floating) else None
    count = jnp.sum(~jnp.isnan(x), dim, keepdims=True) if present is None else present
    middle = jnp.maximum(count - 1, 0) // 2
    middle = jnp.broadcast_to(
        middle, [1 if n == dim % x.ndim else s for n, s in enumerate(x.shape)]
    )
    medians = [jnp.take_along_axis(x, middle, dim) for x in (values, order)]
    return medians if keepdim else [jnp.squeeze(median, dim) for median in medians]


@rule("aten::kthvalue")
def _kthvalue(dtypes: Any, /, x: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    ordered = _sorted(dtypes, x, dim, False)
    results = [lax.index_in_dim(values, k - 1, dim % x.ndim) for values in ordered]
    return results if keepdim else [jnp.squeeze(result, dim) for result in results]


@rule("aten::mode")
def _mode(dtypes: Any, /, x: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """The smallest of the most frequent values, and its last index."""
    moved = jnp.moveaxis(x, dim, -1)
    counts = jnp.sum(moved[..., :, None] == moved[..., None, :], -1)
    most = counts == jnp.max(counts, -1, keepdims=True)
    ordered = jnp.sort(jnp.where(most, moved, jnp.max(moved, -1, keepdims=True)), -1)
    value = ordered[..., :1]
    last = x.shape[dim] - 1 - jnp.argmax(jnp.flip(moved == value, -1), -1)
    value = value[..., 0]
    if keepdim:
        return jnp.expand_dims(value, dim), jnp.expand_dims(last, dim)
    return value, last
