"""Rules of pooling, with one slice of the padded operand for each position in a window."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lowering.frontends.aten_in_jax.dtypes import opmath_dtype
from lowering.frontends.aten_in_jax.elementwise import as_type
from lowering.frontends.aten_in_jax.table import rule, rule_of_ranks


@dataclass(frozen=True, slots=True)
class _Window:
    """The windows of the last dimensions of an operand, two or three."""

    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    ceil_mode: bool

    @property
    def rank(self) -> int:
        return len(self.sizes)

    @property
    def results(self) -> list[int]:
        """The number of windows along each dimension."""
        counts = []
        for size, k, s, p, d in zip(
            self.sizes, self.kernel, self.stride, self.padding, self.dilation, strict=True
        ):
            room = size + 2 * p - d * (k - 1) - 1
            count = (room + (s - 1 if self.ceil_mode else 0)) // s + 1
            # A window that begins in the padding after the operand does not count.
            if self.ceil_mode and (count - 1) * s >= size + p:
                count -= 1
            counts.append(count)
        return counts

    def padded(self, x: Any, value: Any) -> Any:
        """The operand with room for all windows."""
        widths = [(0, 0, 0)] * (x.ndim - self.rank)
        for size, k, s, p, d, n in zip(
            self.sizes, self.kernel, self.stride, self.padding, self.dilation, self.results,
            strict=True,
        ):  # fmt: skip
            needed = (n - 1) * s + d * (k - 1) + 1
            widths.append((p, jax.core.max_dim(needed - size - p, 0), 0))
        return lax.pad(x, as_type(value, x.dtype), widths)

    def parts(self, padded: Any) -> Iterator[Any]:
        """For each position in a window, the elements of all windows at it."""
        for position in itertools.product(*map(range, self.kernel)):
            starts = [n * d for n, d in zip(position, self.dilation, strict=True)]
            # The last window begins before these ends, which are sums of sizes even if they vary.
            ends = [
                start + size - d * (k - 1)
                for start, size, k, d in zip(
                    starts, padded.shape[-len(starts) :], self.kernel, self.dilation, strict=True
                )
            ]
            ranges = zip(starts, ends, self.stride, strict=True)
            yield padded[(..., *(slice(*bounds) for bounds in ranges))]


def _window(
    x: Any, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], ceil_mode: bool, rank: int,
) -> _Window:  # fmt: skip
    def spread(values: Sequence[int]) -> tuple[int, ...]:
        return tuple(values) * rank if len(values) == 1 else tuple(values)

    return _Window(
        tuple(x.shape[-rank:]), spread(kernel), spread(stride or kernel), spread(padding),
        spread(dilation), ceil_mode,
    )  # fmt: skip


@rule_of_ranks("aten::max_pool{}d_with_indices")
def _maximum(
    rank: int, dtypes: Any, /, x: Any, kernel: Any, stride: Any = (), padding: Any = (0,),
    dilation: Any = (1,), ceil_mode: bool = False,
) -> Any:  # fmt: skip
    window = _window(x, kernel, stride, padding, dilation, ceil_mode, rank)
    lowest = -np.inf if jnp.issubdtype(x.dtype, jnp.floating) else jnp.iinfo(x.dtype).min
    numbers = jnp.arange(math.prod(window.sizes)).reshape(window.sizes)
    values = jnp.stack(list(window.parts(window.padded(x, lowest))))
    positions = jnp.stack(list(window.parts(window.padded(numbers, -1))))
    # The padding is never the maximum, even of a window of lowest values.
    indices = positions.reshape(len(positions), *[1] * (x.ndim - rank), *positions.shape[1:])
    positions = jnp.broadcast_to(indices, values.shape)
    best = jnp.max(values, 0)
    first = jnp.argmax((positions >= 0) & ((values == best) | jnp.isnan(values)), 0)
    return best, jnp.take_along_axis(positions, first[None], 0)[0]


@rule_of_ranks("aten::fractional_max_pool{}d")
def _fractional_maximum(
    rank: int, dtypes: Any, /, x: Any, kernel: Any, sizes: Any, samples: Any
) -> tuple[Any, Any]:
    """The maxima of windows whose starts follow from a random number for each dimension."""
    outer, inner = x.shape[:-rank], x.shape[-rank:]
    samples = samples.reshape(-1, rank)[:, :: -1 if rank == 2 else 1]  # PyTorch's order
    position = jnp.zeros((1,) * (2 * rank + 1), jnp.int64)
    for dim, (size, k, n) in enumerate(zip(inner, kernel, sizes, strict=True)):
        sample, room = samples[:, dim : dim + 1], size - k
        alpha = as_type(room, x.dtype) / max(n - 1, 1)
        starts = jnp.trunc((jnp.arange(n) + sample) * alpha) - jnp.trunc(sample * alpha)
        starts = jnp.where(jnp.arange(n) < n - 1, starts, room).astype(jnp.int64)
        inside = starts[..., None] + jnp.arange(k)
        others = [1 + m for m in range(2 * rank) if m % rank != dim]
        position = position * size + jnp.expand_dims(inside, others)
    flat = x.reshape(-1, math.prod(inner))
    position = lax.collapse(lax.collapse(position, rank + 1), 1, rank + 1)
    elements = jnp.take_along_axis(flat[:, None], position, -1)
    # As in PyTorch, the first greatest element, or the last NaN.
    missing = jnp.isnan(elements)
    last = elements.shape[-1] - 1 - jnp.argmax(missing[..., ::-1], -1, keepdims=True)
    first = jnp.argmax(elements, -1, keepdims=True)
    best = jnp.where(missing.any(-1, keepdims=True), last, first)
    maxima, indices = (jnp.take_along_axis(x, best, -1) for x in (elements, position))
    return maxima.reshape(*outer, *sizes), indices.reshape(*outer, *sizes)


@rule_of_ranks("aten::fractional_max_pool{}d_backward")
@rule_of_ranks("aten::max_pool{}d_with_indices_backward")
@rule_of_ranks("aten::adaptive_max_pool{}d_backward")
def _to_maximum(rank: int, dtype: Any, /, grad: Any, x: Any, *rest: Any) -> Any:
    """The gradients at the positions of the maxima, which are the last argument."""
    indices = rest[-1]
    outer, count = x.shape[:-rank], math.prod(x.shape[-rank:])
    rows = int(np.prod(outer))
    flat = jnp.zeros((rows, count), dtype)
    windows = rows, math.prod(grad.shape[len(outer) :])
    sums = flat.at[jnp.arange(rows)[:, None], indices.reshape(windows)].add(grad.reshape(windows))
    return sums.reshape(x.shape)


@rule_of_ranks("aten::avg_pool{}d")
def _average(
    rank: int, dtype: Any, /, x: Any, kernel: Any, stride: Any = (), padding: Any = (0,),
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Any:  # fmt: skip
    window = _window(x, kernel, stride, padding, (1,), ceil_mode, rank)
    wide = jnp.promote_types(x.dtype, jnp.float32) if x.dtype != jnp.float64 else x.dtype
    total = sum(window.parts(window.padded(x.astype(wide), 0)))
    if divisor_override:
        return total / divisor_override
    counts = jnp.ones((), wide)
    for size, k, s, p, n in zip(
        window.sizes, window.kernel, window.stride, window.padding, window.results, strict=True
    ):
        # Windows can extend past the padding in the arguments, which counts or does not.
        margin = p if count_include_pad else 0
        starts = jnp.arange(n, dtype=wide) * s - p
        counted = jnp.minimum(starts + k, size + margin) - jnp.maximum(starts, -margin)
        counts = counts[..., None] * counted
    return total / counts


@rule_of_ranks("aten::avg_pool{}d_backward")
def _average_backward(rank: int, dtype: Any, /, grad: Any, x: Any, *arguments: Any) -> Any:
    _, pull = jax.vjp(lambda x: _average(rank, dtype, x, *arguments).astype(x.dtype), x)
    return pull(grad)[0]


@rule("aten::_adaptive_avg_pool3d")
def _adaptive_average(dtype: Any, /, x: Any, sizes: Sequence[int]) -> Any:
    """The mean of each of `sizes` parts of the last dimensions; parts may overlap."""
    wide = x.astype(opmath_dtype(x.dtype))
    for number, size in enumerate(sizes):
        dim = x.ndim - len(sizes) + number
        length = x.shape[dim]
        starts = [n * length // size for n in range(size)]
        ends = [-((n + 1) * -length // size) for n in range(size)]
        parts = [
            jnp.mean(lax.slice_in_dim(wide, start, end, axis=dim), dim, keepdims=True)
            for start, end in zip(starts, ends, strict=True)
        ]
        wide = jnp.concatenate(parts, dim)
    return wide.astype(x.dtype)


@rule_of_ranks("aten::_adaptive_avg_pool{}d_backward")
def _adaptive_average_backward(rank: int, dtype: Any, /, grad: Any, x: Any) -> Any:
    _, pull = jax.vjp(lambda x: _adaptive_average(dtype, x, grad.shape[-rank:]), x)
    return pull(grad)[0]


@rule("aten::adaptive_max_pool2d", "aten::adaptive_max_pool3d")
def _adaptive_maximum(dtypes: Any, /, x: Any, sizes: Sequence[int]) -> tuple[Any, Any]:
    """The maximum of each part, and its position in the last dimensions."""
    rank, parts = len(sizes), x
    starts, widths = [], []
    for dim, size in enumerate(sizes, x.ndim - rank):
        length = x.shape[dim]
        start = np.arange(size) * length // size
        last = -(np.arange(1, size + 1) * -length // size) - 1
        widths.append(int((last - start).max()) + 1)
        starts.append(start.reshape(-1, *[1] * (x.ndim - 1 - dim)))
        # The last element of a shorter part is repeated.
        inside = np.minimum(start[:, None] + np.arange(widths[-1]), last[:, None])
        parts = jnp.moveaxis(jnp.take(parts, inside, dim), dim + 1, -1)
    flat = lax.collapse(parts, x.ndim)
    first = jnp.argmax(flat, -1)  # of a NaN, if any, which XLA:CPU's maxima may ignore
    position = jnp.zeros((), jnp.int64)
    for start, inside, length in zip(
        starts, jnp.unravel_index(first, widths), x.shape[-rank:], strict=True
    ):
        position = position * length + start + inside
    return jnp.take_along_axis(flat, first[..., None], -1)[..., 0], position
