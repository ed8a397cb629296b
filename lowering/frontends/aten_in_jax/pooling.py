"""Rules of pooling: a window is one slice of the padded operand for each of its places."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lowering.frontends.aten_in_jax.elementwise import as_type
from lowering.frontends.aten_in_jax.table import rule


@dataclass(frozen=True, slots=True)
class _Window:
    """The windows of the last two dimensions of an operand."""

    sizes: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    ceil_mode: bool

    @property
    def results(self) -> list[int]:
        """The number of windows along each dimension."""
        found = []
        for size, k, s, p, d in zip(
            self.sizes, self.kernel, self.stride, self.padding, self.dilation, strict=True
        ):
            room = size + 2 * p - d * (k - 1) - 1
            count = (room + (s - 1 if self.ceil_mode else 0)) // s + 1
            # A window that begins in the padding after the operand does not count.
            if self.ceil_mode and (count - 1) * s >= size + p:
                count -= 1
            found.append(count)
        return found

    def padded(self, x: Any, value: Any) -> Any:
        """The operand with room for all windows."""
        widths = [(0, 0, 0)] * (x.ndim - 2)
        for size, k, s, p, d, n in zip(
            self.sizes, self.kernel, self.stride, self.padding, self.dilation, self.results,
            strict=True,
        ):  # fmt: skip
            needed = (n - 1) * s + d * (k - 1) + 1
            widths.append((p, max(needed - size - p, 0), 0))
        return lax.pad(x, as_type(value, x.dtype), widths)

    def parts(self, padded: Any) -> Iterator[Any]:
        """For each place of a window, the elements at it of all windows."""
        for place in itertools.product(*map(range, self.kernel)):
            starts = [n * d for n, d in zip(place, self.dilation, strict=True)]
            last = zip(starts, self.results, self.stride, strict=True)
            ends = [start + (n - 1) * s + 1 for start, n, s in last]
            ranges = zip(starts, ends, self.stride, strict=True)
            yield padded[(..., *(slice(*one) for one in ranges))]


def _window(
    x: Any, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], ceil_mode: bool,
) -> _Window:  # fmt: skip
    def pair(values: Sequence[int]) -> tuple[int, int]:
        return (values[0], values[-1])

    return _Window(
        (x.shape[-2], x.shape[-1]), pair(kernel), pair(stride or kernel), pair(padding),
        pair(dilation), ceil_mode,
    )  # fmt: skip


@rule("aten::max_pool2d_with_indices")
def _max_pool2d(
    dtypes: Any, /, x: Any, kernel: Any, stride: Any = (), padding: Any = (0,),
    dilation: Any = (1,), ceil_mode: bool = False,
) -> Any:  # fmt: skip
    window = _window(x, kernel, stride, padding, dilation, ceil_mode)
    lowest = -np.inf if jnp.issubdtype(x.dtype, jnp.floating) else jnp.iinfo(x.dtype).min
    numbers = jnp.arange(window.sizes[0] * window.sizes[1]).reshape(window.sizes)
    values = jnp.stack(list(window.parts(window.padded(x, lowest))))
    places = jnp.stack(list(window.parts(window.padded(numbers, -1))))
    # The padding is never the maximum, even of a window of lowest values.
    places = jnp.broadcast_to(
        places.reshape(len(places), *[1] * (x.ndim - 2), *places.shape[1:]), values.shape
    )
    best = jnp.max(values, 0)
    first = jnp.argmax((places >= 0) & ((values == best) | jnp.isnan(values)), 0)
    return best, jnp.take_along_axis(places, first[None], 0)[0]


@rule("aten::max_pool2d_with_indices_backward")
def _max_pool2d_backward(dtype: Any, /, grad: Any, x: Any, *rest: Any) -> Any:
    indices = rest[-1]
    outer, count = x.shape[:-2], x.shape[-2] * x.shape[-1]
    rows = int(np.prod(outer))
    flat = jnp.zeros((rows, count), dtype)
    found = flat.at[jnp.arange(rows)[:, None], indices.reshape(rows, -1)].add(
        grad.reshape(rows, -1)
    )
    return found.reshape(x.shape)


def _average(
    x: Any, kernel: Any, stride: Any = (), padding: Any = (0,), ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Any:  # fmt: skip
    window = _window(x, kernel, stride, padding, (1,), ceil_mode)
    wide = jnp.promote_types(x.dtype, jnp.float32) if x.dtype != jnp.float64 else x.dtype
    total = sum(window.parts(window.padded(x.astype(wide), 0)))
    if divisor_override:
        return total / divisor_override
    ones = jnp.ones(window.sizes, wide)
    if count_include_pad:  # of the padding that was asked for, not of what the last window needs
        margin = [(p, p) for p in window.padding]
        inside = _Window(
            (window.sizes[0] + 2 * window.padding[0], window.sizes[1] + 2 * window.padding[1]),
            window.kernel, window.stride, (0, 0), (1, 1), ceil_mode,
        )  # fmt: skip
        ones = jnp.pad(ones, margin, constant_values=1)
        widths = []
        for size, k, s, n in zip(
            inside.sizes, window.kernel, window.stride, window.results, strict=True
        ):
            widths.append((0, max((n - 1) * s + k - size, 0), 0))
        ones = lax.pad(ones, as_type(0, wide), widths)
        return total / sum(window.parts(ones))
    return total / sum(window.parts(window.padded(ones, 0)))


@rule("aten::avg_pool2d")
def _avg_pool2d(dtype: Any, /, x: Any, *arguments: Any) -> Any:
    return _average(x, *arguments)


@rule("aten::avg_pool2d_backward")
def _avg_pool2d_backward(dtype: Any, /, grad: Any, x: Any, *arguments: Any) -> Any:
    _, pull = jax.vjp(lambda x: _average(x, *arguments).astype(x.dtype), x)
    return pull(grad)[0]
