"""Rules of operators that read and write elements by their indices."""

from collections.abc import Callable
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lowering.frontends.aten_in_jax.dtypes import common_dtype, opmath_dtype
from lowering.frontends.aten_in_jax.elementwise import as_type
from lowering.frontends.aten_in_jax.table import NoRuleError, rule


@rule("aten::gather")
def _gather(dtype: Any, /, x: Any, dim: int, index: Any, **_: Any) -> Any:
    part = tuple(
        slice(None) if n == dim % x.ndim else slice(0, size) for n, size in enumerate(index.shape)
    )
    return jnp.take_along_axis(x[part], index, dim, mode="clip")


@rule("aten::index_select")
def _index_select(dtype: Any, /, x: Any, dim: int, index: Any) -> Any:
    return jnp.take(x, index.reshape(-1), dim, mode="clip")


@rule("aten::embedding")
def _embedding(dtype: Any, /, weight: Any, indices: Any, *_: Any) -> Any:
    return jnp.take(weight, indices, 0, mode="clip")


def _is_mask(index: Any) -> bool:
    """Return whether an index is a mask. PyTorch treats indices of u8 as booleans."""
    return index is not None and index.dtype in (jnp.bool_, jnp.uint8)


@rule("aten::index.Tensor", "aten::_unsafe_index.Tensor")
def _index_tensor(dtype: Any, /, x: Any, indices: Any) -> Any:
    if any(_is_mask(index) for index in indices):
        raise NoRuleError(
            "aten::index has a mask, so that the shape of the result depends on values"
        )
    return x[tuple(slice(None) if index is None else index for index in indices)]


@rule("aten::index_put", "aten::_index_put_impl", "aten::_unsafe_index_put")
def _index_put(
    dtype: Any, /, x: Any, indices: Any, values: Any, accumulate: bool = False, *_: Any
) -> Any:
    present = [(n, index) for n, index in enumerate(indices) if index is not None]
    number = _number_of_values(x, present, values)
    if number == 1 and len(present) == 1 and _is_mask(present[0][1]):
        return _one_value(x, present[0][1], present[0][0], values, accumulate)
    masks = [index for _, index in present if _is_mask(index)]
    if masks and number == 1:
        number = max(mask.size for mask in masks)
        count = reduce(jnp.maximum, [jnp.count_nonzero(mask) for mask in masks])
    else:
        count = number
    positions: list[Any] = []
    for index in indices:
        if _is_mask(index):
            positions += _selected_positions(index, number, count)
        else:
            positions.append(slice(None) if index is None else index)
    target = x.at[tuple(positions)]
    return _summed(target, values) if accumulate else target.set(values)


def _selected_positions(mask: Any, size: int, count: Any) -> list[Any]:
    """The positions that a mask selects, in each of its dimensions, padded with positions outside
    of it, at which nothing is written. A single position is repeated for `count` values."""
    positions = jnp.nonzero(mask, size=size, fill_value=mask.shape)
    is_repeated = (jnp.count_nonzero(mask) == 1) & (jnp.arange(size) < count)
    return [jnp.where(is_repeated, indices[:1], indices) for indices in positions]


def _number_of_values(x: Any, present: list[tuple[int, Any]], values: Any) -> int:
    """Return the number of values, or of other indices, for the elements that masks select. PyTorch
    accepts the number of these elements, or 1."""
    numbers = [index.shape[-1] for _, index in present if index.ndim and not _is_mask(index)]
    chosen = sum(index.ndim if _is_mask(index) else 1 for _, index in present)
    first, last = present[0][0], present[-1][0]
    # PyTorch puts the dimension of the elements in front if indices are apart.
    before = first if last - first < len(present) else 0
    behind = x.ndim - before - chosen
    if values.ndim > behind:
        numbers.append(values.shape[-behind - 1])
    return next((number for number in numbers if number != 1), 1)


def _one_value(x: Any, mask: Any, before: int, values: Any, accumulate: bool) -> Any:
    """Write one value to all elements that a mask selects. `before` dimensions precede those of the
    mask."""
    behind = x.ndim - before - mask.ndim
    number = values.ndim - behind - 1  # of the dimension of the elements
    if number >= 0:
        shape = values.shape
        values = values.reshape(*shape[:number], *[1] * mask.ndim, *shape[number + 1 :])
    chosen = mask.reshape(*[1] * before, *mask.shape, *[1] * behind) != 0
    if accumulate:
        values = x | values if x.dtype == jnp.bool_ else x + values
    return jnp.where(chosen, values, x).reshape(x.shape)  # values can have more dimensions of one


def _elements(x: Any, dim: int, index: Any) -> Any:
    """The elements of `x` at the indices `index` along one dimension."""
    grid = [
        jnp.arange(size).reshape([-1 if m == n else 1 for m in range(index.ndim)])
        for n, size in enumerate(index.shape)
    ]
    grid[dim % x.ndim] = index
    return x.at[tuple(grid)]


def _part(source: Any, index: Any) -> Any:
    return source[tuple(slice(0, size) for size in index.shape)]


def _summed(target: Any, values: Any) -> Any:
    """Add values to elements. A sum of booleans is true if one of them is true."""
    return target.max(values) if values.dtype == jnp.bool_ else target.add(values)


def _multiplied(target: Any, values: Any) -> Any:
    return target.min(values) if values.dtype == jnp.bool_ else target.multiply(values)


_REDUCING: dict[str, Callable[[Any, Any], Any]] = {
    "add": _summed, "sum": _summed, "multiply": _multiplied, "prod": _multiplied,
    "amax": lambda at, values: at.max(values), "amin": lambda at, values: at.min(values),
    "": lambda at, values: at.set(values),
}  # fmt: skip


@rule(*(f"aten::scatter.{kind}" for kind in ("value", "src", "value_reduce", "reduce")))
def _scatter(dtype: Any, /, x: Any, dim: int, index: Any, source: Any, *, reduce: str = "") -> Any:
    if not index.size:  # it can have another rank, also in the rules below
        return x
    is_number = not hasattr(source, "ndim")
    values = jnp.full(index.shape, source, dtype) if is_number else _part(source, index)
    dim %= max(x.ndim, 1)
    if not reduce and x.ndim and index.shape == (*x.shape[:dim], 1, *x.shape[dim + 1 :]):
        # One element per row, as in a maximum's gradient. Device compilers support few scatters.
        return jnp.where(lax.broadcasted_iota(index.dtype, x.shape, dim) == index, values, x)
    return _REDUCING[reduce](_elements(x, dim, index), values)


@rule("aten::scatter_add")
def _scatter_add(dtype: Any, /, x: Any, dim: int, index: Any, source: Any) -> Any:
    if not index.size:
        return x
    wide = opmath_dtype(dtype)  # as in PyTorch, which rounds such a sum once
    total = _summed(_elements(x.astype(wide), dim, index), _part(source, index).astype(wide))
    return total.astype(dtype)


@rule("aten::scatter_reduce.two")
def _scatter_reduce(
    dtype: Any, /, x: Any, dim: int, index: Any, source: Any, reduce: str, *,
    include_self: bool = True,
) -> Any:  # fmt: skip
    if not index.size:
        return x
    wide = dtype if reduce in ("amax", "amin") else opmath_dtype(dtype)
    x, part = x.astype(wide), _part(source, index).astype(wide)
    if not include_self:  # elements that are written to begin at the neutral value
        x = _elements(x, dim, index).set(_neutral(reduce, wide))
    target = _elements(x, dim, index)
    if reduce == "mean":
        if dtype == jnp.bool_:
            raise NoRuleError("PyTorch has no mean of booleans")
        count = jnp.full(x.shape, 1, jnp.int32)
        if not include_self:
            count = _elements(count, dim, index).set(0)
        count = _elements(count, dim, index).add(1)
        total = target.add(part)
        count = jnp.maximum(count, 1)
        if jnp.issubdtype(dtype, jnp.integer):
            return jnp.floor_divide(total, count.astype(dtype))
        return total.astype(dtype) / count.astype(dtype)
    return _REDUCING[reduce](target, part).astype(dtype)


@rule("aten::index_reduce")
def _index_reduce(
    dtype: Any, /, x: Any, dim: int, index: Any, source: Any, reduce: str, **named: Any
) -> Any:
    """A scatter of the slices of `source`."""
    along = index.reshape([-1 if n == dim % x.ndim else 1 for n in range(x.ndim)])
    indices = jnp.broadcast_to(along, source.shape)
    return _scatter_reduce(dtype, x, dim, indices, source, reduce, **named)


def _neutral(reduce: str, dtype: Any) -> Any:
    """The value that does not change the result of a reduction."""
    if dtype == jnp.bool_:
        return as_type(reduce in ("prod", "amin"), dtype)
    if reduce in ("amax", "amin"):
        sign = -1 if reduce == "amax" else 1
        if jnp.issubdtype(dtype, jnp.floating):
            return as_type(sign * np.inf, dtype)
        limits = jnp.iinfo(dtype)
        return as_type(limits.min if sign < 0 else limits.max, dtype)
    return as_type(1 if reduce == "prod" else 0, dtype)


@rule("aten::index_add")
def _index_add(dtype: Any, /, x: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    wide = opmath_dtype(dtype)  # as in PyTorch, but for one dimension
    scaled = source.astype(wide) if alpha == 1 else source.astype(wide) * as_type(alpha, wide)
    target = x.astype(wide).at[(slice(None),) * (dim % x.ndim) + (index.reshape(-1),)]
    return _summed(target, scaled).astype(dtype)


@rule("aten::searchsorted.Tensor", "aten::searchsorted.Scalar")
def _searchsorted(
    dtype: Any, /, sequence: Any, x: Any, *, right: bool = False, side: str | None = None,
    sorter: Any = None, **_: Any,
) -> Any:  # fmt: skip
    if sorter is not None:
        sequence = jnp.take_along_axis(sequence, sorter, -1)
    side = side or ("right" if right else "left")
    common = common_dtype(sequence, x)
    sequence, x = as_type(sequence, common), jnp.asarray(as_type(x, common))
    if not x.size:
        return jnp.zeros(x.shape, dtype)
    if sequence.ndim == 1:
        return jnp.searchsorted(sequence, x, side)
    rows = sequence.reshape(-1, sequence.shape[-1]), x.reshape(-1, x.shape[-1])
    return jax.vmap(lambda s, v: jnp.searchsorted(s, v, side))(*rows).reshape(x.shape)


@rule("aten::bucketize.Tensor", "aten::bucketize.Scalar")
def _bucketize(dtype: Any, /, x: Any, boundaries: Any, **options: Any) -> Any:
    return _searchsorted(dtype, boundaries, x, **options)


def _rows_of_segments(rows: int, lengths: Any, offsets: Any) -> tuple[tuple[Any, ...], Any]:
    """The index of the segment of each row, and the number of rows in each segment."""
    if offsets is None:
        widths = [(0, 0)] * (lengths.ndim - 1) + [(1, 0)]
        offsets = jnp.pad(jnp.cumsum(lengths, -1), widths)
    row = jnp.broadcast_to(jnp.arange(rows), (*offsets.shape[:-1], rows))
    segment = _searchsorted(jnp.int64, offsets, row, right=True) - 1
    return (*jnp.indices(segment.shape)[:-1], segment), jnp.diff(offsets)


@rule("aten::segment_reduce")
def _segment_reduce(
    dtype: Any, /, x: Any, reduce: str, *, lengths: Any = None, offsets: Any = None, axis: int = 0,
    initial: Any = None, **_: Any,
) -> Any:  # fmt: skip
    segments, counts = _rows_of_segments(x.shape[axis], lengths, offsets)
    kind = {"mean": "sum", "max": "amax", "min": "amin"}.get(reduce, reduce)
    first = _neutral(kind, dtype) if initial is None else as_type(initial, dtype)
    reduced = _REDUCING[kind](jnp.full(counts.shape + x.shape[axis + 1 :], first).at[segments], x)
    if reduce != "mean":
        return reduced
    counts = counts if initial is None else jnp.maximum(counts, 1)
    return reduced / lax.expand_dims(counts, range(counts.ndim, x.ndim)).astype(dtype)


@rule("aten::_segment_reduce_backward")
def _segment_reduce_backward(
    dtype: Any, /, gradient: Any, result: Any, x: Any, reduce: str, *, lengths: Any = None,
    offsets: Any = None, axis: int = 0, initial: Any = None,
) -> Any:  # fmt: skip
    segments, counts = _rows_of_segments(x.shape[axis], lengths, offsets)
    gradient, result = gradient[segments], result[segments]
    if reduce == "sum":
        return gradient
    if reduce == "mean":
        counts = counts[segments]
        return gradient / lax.expand_dims(counts, range(counts.ndim, x.ndim)).astype(dtype)
    blank = jnp.zeros(counts.shape + x.shape[axis + 1 :], dtype)
    # Equal maxima share a positive gradient; PyTorch gives a negative one to each of them.
    # Zeros and NaN, which cannot be divided by, get the product of the other factors.
    chosen = jnp.isnan(x) | (x == (0 if reduce == "prod" else result))
    number = blank.at[segments].add(chosen.astype(dtype))[segments]
    if reduce != "prod":
        return jnp.where(chosen, gradient / jnp.where(gradient > 0, number, 1), 0)
    factors = (blank + (1 if initial is None else initial)).at[segments]
    others = factors.multiply(jnp.where(chosen, 1, x))[segments]
    others = jnp.where(chosen & (number == 1), others, result)
    return gradient * others / jnp.where(chosen, 1, x)


@rule("aten::repeat_interleave.Tensor")
def _repeat_interleave(dtype: Any, /, repeats: Any, *, output_size: int) -> Any:
    return jnp.repeat(jnp.arange(repeats.size), repeats, total_repeat_length=output_size)


@rule("aten::nonzero_static")
def _nonzero_static(dtype: Any, /, x: Any, *, size: int, fill_value: int = -1) -> Any:
    if not x.size:  # JAX would ignore `fill_value`
        return jnp.full((size, x.ndim), fill_value)
    return jnp.stack(jnp.nonzero(x, size=size, fill_value=fill_value), -1)


@rule("aten::take")  # also in the gradient of `put`; PyTorch's decomposition reads values
def _take(dtype: Any, /, x: Any, index: Any) -> Any:
    return x.reshape(-1)[index]  # negative indices count from the end


@rule("aten::put")
def _put(dtype: Any, /, x: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    target = x.reshape(-1).at[index.reshape(-1)]
    values = source.reshape(-1)
    return (_summed(target, values) if accumulate else target.set(values)).reshape(x.shape)
