"""Rules of operators that move elements without computing with them."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from lowering.frontends.aten_in_jax.elementwise import as_type
from lowering.frontends.aten_in_jax.table import rule, rule_without_dtype


@rule("aten::clone", "aten::contiguous", "aten::positive")
def _same(dtype: Any, /, x: Any, **_: Any) -> Any:
    return x


@rule(
    "aten::_unsafe_view", "aten::reshape", "aten::view", "aten::view_copy", "aten::_reshape_alias",
    "aten::_reshape_copy",
)  # fmt: skip
def _reshape(dtype: Any, /, x: Any, shape: Any, *_: Any) -> Any:
    return jnp.reshape(x, shape)


@rule("aten::expand", "aten::expand_copy")
def _expand(dtype: Any, /, x: Any, shape: Any, **_: Any) -> Any:
    new = len(shape) - x.ndim
    sizes = [
        x.shape[n - new] if isinstance(size, int) and size == -1 else size
        for n, size in enumerate(shape)
    ]
    return jnp.broadcast_to(x, sizes)


rule_without_dtype(jnp.transpose, "aten::permute", "aten::permute_copy", "aten::t", "aten::t_copy")
rule_without_dtype(jnp.swapaxes, "aten::transpose.int", "aten::transpose_copy.int")
rule_without_dtype(jnp.expand_dims, "aten::unsqueeze", "aten::unsqueeze_copy")
rule_without_dtype(jnp.squeeze, "aten::squeeze", "aten::squeeze_copy")
rule_without_dtype(jnp.diagonal, "aten::diagonal", "aten::diagonal_copy")
rule_without_dtype(jnp.tril, "aten::tril")
rule_without_dtype(jnp.triu, "aten::triu")
rule_without_dtype(jnp.tile, "aten::repeat")
rule("aten::flip")(lambda dtype, /, x, dims: jnp.flip(x, tuple(dims)))


@rule("aten::squeeze.dim", "aten::squeeze.dims", "aten::squeeze_copy.dims")
def _squeeze_dims(dtype: Any, /, x: Any, dims: Any) -> Any:
    listed = [dims] if isinstance(dims, int) else dims
    return jnp.squeeze(x, tuple(d for d in listed if x.shape[d] == 1))


def _along(x: Any, dim: int, index: Any) -> Any:
    return (slice(None),) * (dim % x.ndim) + (index,)


def _range(start: Any, end: Any, step: Any) -> slice:
    whole = isinstance(end, int) and end >= 2**62  # PyTorch's number for the end
    return slice(start, None if whole else end, step)


@rule("aten::slice.Tensor", "aten::slice_copy.Tensor")
def _slice(
    dtype: Any, /, x: Any, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1
) -> Any:
    return x[_along(x, dim, _range(start, end, step))]


@rule("aten::slice_scatter")
def _slice_scatter(
    dtype: Any, /, x: Any, source: Any, dim: int = 0, start: Any = None, end: Any = None,
    step: Any = 1,
) -> Any:  # fmt: skip
    written, dim, source = _range(start, end, step), dim % x.ndim, as_type(source, dtype)
    if not _are_static(start, end, x.shape[dim]):
        return x.at[_along(x, dim, written)].set(source)
    indices = range(x.shape[dim])[written]
    if step == 1:  # device compilers support few scatters
        return lax.dynamic_update_slice_in_dim(x, source, indices.start, dim)
    mask = np.isin(np.arange(x.shape[dim]), indices)
    mask = mask.reshape([-1 if n == dim else 1 for n in range(x.ndim)])
    return jnp.where(mask, _among_zeros(source, dim, indices, x.shape[dim]), x)


@rule("aten::slice_backward")
def _slice_backward(
    dtype: Any, /, gradient: Any, sizes: Any, dim: int, start: Any, end: Any, step: Any
) -> Any:
    dim %= gradient.ndim
    if not _are_static(start, end, sizes[dim]):
        return _slice_scatter(dtype, jnp.zeros(sizes, dtype), gradient, dim, start, end, step)
    indices = range(sizes[dim])[_range(start, end, step)]
    return _among_zeros(gradient, dim, indices, sizes[dim])


def _are_static(*numbers: Any) -> bool:
    """Return whether all sizes and positions are static."""
    return all(number is None or isinstance(number, int) for number in numbers)


def _among_zeros(x: Any, dim: int, indices: range, size: int) -> Any:
    """An array of zeros with `x` at `indices` of a dimension, which has `size` elements."""
    widths = [(0, 0, 0)] * x.ndim
    widths[dim] = (size, 0, 0)
    if indices:
        widths[dim] = (indices[0], size - indices[-1] - 1, indices.step - 1)
    return lax.pad(x, jnp.zeros((), x.dtype), widths)


@rule("aten::select.int", "aten::select_copy.int")
def _select(dtype: Any, /, x: Any, dim: int, index: Any) -> Any:
    return lax.index_in_dim(x, index, dim % x.ndim, keepdims=False)


@rule("aten::select_scatter")
def _select_scatter(dtype: Any, /, x: Any, source: Any, dim: int, index: Any) -> Any:
    dim, source = dim % x.ndim, as_type(source, dtype)
    if not _are_static(index, x.shape[dim]):
        return x.at[_along(x, dim, index)].set(source)
    widened = jnp.expand_dims(source, dim)
    return lax.dynamic_update_slice_in_dim(x, widened, index % x.shape[dim], dim)


@rule("aten::select_backward")
def _select_backward(dtype: Any, /, gradient: Any, sizes: Any, dim: int, index: Any) -> Any:
    dim %= len(sizes)
    if not _are_static(index, sizes[dim]):
        return _select_scatter(dtype, jnp.zeros(sizes, dtype), gradient, dim, index)
    position = index % sizes[dim]
    widened = jnp.expand_dims(gradient, dim)
    return _among_zeros(widened, dim, range(position, position + 1), sizes[dim])


@rule("aten::cat")
def _cat(dtype: Any, /, tensors: Any, dim: int = 0) -> Any:
    rank = max(x.ndim for x in tensors)
    kept = [as_type(x, dtype) for x in tensors if x.ndim == rank]  # others are empty vectors
    return jnp.concatenate(kept, dim)


@rule("aten::stack")
def _stack(dtype: Any, /, tensors: Any, dim: int = 0) -> Any:
    return jnp.stack([as_type(x, dtype) for x in tensors], dim)


@rule("aten::split.Tensor", "aten::split_copy.Tensor")
def _split(dtypes: Any, /, x: Any, size: int, dim: int = 0) -> Any:
    length = x.shape[dim]
    starts = range(0, max(length, 1), size or 1)
    return [lax.slice_in_dim(x, n, min(n + size, length), axis=dim % x.ndim) for n in starts]


@rule("aten::split_with_sizes", "aten::split_with_sizes_copy")
def _split_with_sizes(dtypes: Any, /, x: Any, sizes: Any, dim: int = 0) -> Any:
    return lax.split(x, sizes, dim % x.ndim)


@rule("aten::unbind.int", "aten::unbind_copy.int")
def _unbind(dtypes: Any, /, x: Any, dim: int = 0) -> Any:
    return [lax.index_in_dim(x, n, dim % x.ndim, keepdims=False) for n in range(x.shape[dim])]


@rule("aten::roll")
def _roll(dtype: Any, /, x: Any, shifts: Any, dims: Any = ()) -> Any:
    if not dims:
        return jnp.roll(x, shifts[0] if isinstance(shifts, list | tuple) else shifts)
    return jnp.roll(x, tuple(shifts), tuple(dims))


@rule("aten::constant_pad_nd")
def _pad(dtype: Any, /, x: Any, pad: Any, value: Any = 0) -> Any:
    widths = [(0, 0, 0)] * x.ndim
    for n in range(len(pad) // 2):
        widths[x.ndim - 1 - n] = (pad[2 * n], pad[2 * n + 1], 0)
    return lax.pad(x, as_type(value, dtype), widths)


@rule("aten::unfold", "aten::unfold_copy")
def _unfold(dtype: Any, /, x: Any, dim: int, size: int, step: int) -> Any:
    starts = range(0, x.shape[dim] - size + 1, step)
    windows = [lax.slice_in_dim(x, n, n + size, axis=dim % x.ndim) for n in starts]
    return jnp.stack([jnp.moveaxis(w, dim, -1) for w in windows], dim % x.ndim)


@rule("aten::diagonal_scatter")
def _diagonal_scatter(
    dtype: Any, /, x: Any, source: Any, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Any:
    moved = jnp.moveaxis(x, (dim1, dim2), (-2, -1))
    numbers = np.arange(source.shape[-1])
    rows, columns = numbers + max(-offset, 0), numbers + max(offset, 0)
    return jnp.moveaxis(moved.at[..., rows, columns].set(source), (-2, -1), (dim1, dim2))


@rule("aten::view_as_real", "aten::view_as_real_copy")
def _as_real(dtype: Any, /, x: Any) -> Any:
    return jnp.stack([jnp.real(x), jnp.imag(x)], -1)


@rule("aten::view_as_complex", "aten::view_as_complex_copy")
def _as_complex(dtype: Any, /, x: Any) -> Any:
    return lax.complex(x[..., 0], x[..., 1])
