"""The backward of max pooling without scatters.

The elements of the forward's windows are compared again, to get the index of the largest element of
each window. Input elements at the same position of their windows form a phase: the gradient of a
phase is a sum of whole tensors, and the phases are interleaved. As in the stock lowering, the first
of equal elements gets the gradient, and a NaN is skipped in favour of the element after it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import jax.numpy as jnp
from jax import Array, lax

Pair = tuple[int, int]

NOBODY = -1
"""A number that stands for no element of a window."""


@dataclass(frozen=True, slots=True)
class _Pooling:
    """The windows of a call. Each pair has a value for rows and a value for columns."""

    kernel: Pair
    stride: Pair
    padding: Pair
    inputs: Pair
    windows: Pair

    def largest(self, image: Array) -> Array:
        """Return the number of the largest element of each window, counted row by row."""
        shape = (*image.shape[:-2], *self.windows)
        best, number = jnp.zeros(shape, image.dtype), jnp.full(shape, NOBODY, jnp.int32)
        elements = product(range(self.kernel[0]), range(self.kernel[1]))
        for element, (row, column) in enumerate(elements):
            values, inside = self._values(image, row, column)
            taken = inside & ((number == NOBODY) | ~(best >= values))
            best = jnp.where(taken, values, best)
            number = jnp.where(taken, element, number)
        return number

    def _values(self, image: Array, row: int, column: int) -> tuple[Array, Array]:
        """Return one element of every window, and a mask of elements inside the image."""
        config, limits = [(0, 0, 0)] * (image.ndim - 2), []
        inside = jnp.full((1, 1), True)
        for axis, start in enumerate((row, column)):
            size, stride, count = self.inputs[axis], self.stride[axis], self.windows[axis]
            low = start - self.padding[axis]  # the position of the first window's element
            end = low + (count - 1) * stride + 1
            config.append((max(0, -low), max(0, end - size), 0))
            limits.append((max(0, low), stride, count))
            positions = jnp.arange(count, dtype=jnp.int32) * stride + low
            if low < 0 or end > size:
                within = (positions >= 0) & (positions < size)
                inside = inside & (within[:, None] if axis == 0 else within[None])
        padded = lax.pad(image, jnp.zeros((), image.dtype), config)
        for axis, (start, stride, count) in enumerate(limits, image.ndim - 2):
            end = start + (count - 1) * stride + 1
            padded = lax.slice_in_dim(padded, start, end, stride, axis)
        return padded, inside

    def spread(self, grad: Array, number: Array) -> Array:
        """Compute the gradient of the input. Element `number` of a window gets its gradient."""
        # Phase (a, b) consists of positions a, a + stride, … of the padded image. Element
        # a + m * stride of window i along an axis is at position i + m of the phase.
        sizes = [
            max(-(-(self.inputs[k] + self.padding[k]) // self.stride[k]), self.windows[k])
            for k in (0, 1)
        ]
        shifts = [-(-self.kernel[k] // self.stride[k]) - 1 for k in (0, 1)]
        leading = [(0, 0, 0)] * (grad.ndim - 2)
        config = leading + [(shifts[k], sizes[k] - self.windows[k], 0) for k in (0, 1)]
        grads = lax.pad(grad.astype(jnp.float32), jnp.float32(0), config)
        numbers = lax.pad(number, jnp.int32(NOBODY), config)

        def phase(a: int, b: int) -> Array:
            total = jnp.zeros((*grad.shape[:-2], *sizes), jnp.float32)
            for row in range(a, self.kernel[0], self.stride[0]):
                for column in range(b, self.kernel[1], self.stride[1]):
                    top = shifts[0] - row // self.stride[0]
                    left = shifts[1] - column // self.stride[1]
                    part = (..., slice(top, top + sizes[0]), slice(left, left + sizes[1]))
                    chosen = numbers[part] == row * self.kernel[1] + column
                    total = total + jnp.where(chosen, grads[part], 0)
            return total

        rows = [
            jnp.stack([phase(a, b) for b in range(self.stride[1])], -1)
            for a in range(self.stride[0])
        ]
        whole = [sizes[k] * self.stride[k] for k in (0, 1)]
        interleaved = jnp.stack(rows, -3).reshape(*grad.shape[:-2], *whole)
        cut = [(-self.padding[k], self.inputs[k] + self.padding[k] - whole[k], 0) for k in (0, 1)]
        return lax.pad(interleaved, jnp.float32(0), leading + cut)


def max_pool2d_backward(
    grad_output: Array,
    self: Array,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
) -> Array:
    """The gradient of `aten::max_pool2d` without dilation and without `ceil_mode`."""
    kernel = _pair(kernel_size)
    pooling = _Pooling(
        kernel=kernel,
        stride=_pair(stride) if stride else kernel,
        padding=_pair(padding),
        inputs=(self.shape[-2], self.shape[-1]),
        windows=(grad_output.shape[-2], grad_output.shape[-1]),
    )
    return pooling.spread(grad_output, pooling.largest(self)).astype(self.dtype)


def _pair(sizes: Sequence[int]) -> Pair:
    return sizes[0], sizes[-1]
