"""Gradients that consumers lack, as elementary operations."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod
from typing import Any

from composites.lazy_modules import lax, np

from ..bindings import attributes, comparison_direction
from ..combinations import combination, only_operation
from ..errors import UnsupportedOperationError
from ..in_place import rewrites
from ..ir_types import IrOperation
from .expansion import expand


@rewrites("stablehlo.batch_norm_grad", sharded=True)
def expand_batch_norm_grad(call: IrOperation) -> None:
    """Replace every gradient of a batch norm with elementary operations.

        stablehlo.batch_norm_grad  =>  subtract, multiply, reduce, rsqrt, ..

    IREE 3.13 supports `batch_norm_training` and `batch_norm_inference` but has no rule for this
    operation. torch_xla 2.9 also produces it for layer norm.

    Raises:
      UnsupportedOperationError: an operation has a dynamic shape.
    """
    _check_static(call)
    named = attributes(call)
    axis, epsilon = named["feature_index"].value, named["epsilon"].value
    expand(call, partial(gradients, axis, epsilon))


def over_features(x: Any, axis: int) -> tuple[Callable[[Any], Any], Callable[[Any], Any], float]:
    """A function that broadcasts one value per feature to the shape of `x`, a function that sums
    over the other dimensions, and the number of values that are summed.

    Args:
        axis: the dimension of the features.
    """
    summed = [dim for dim in range(x.ndim) if dim != axis]
    count = float(prod(x.shape[dim] for dim in summed))

    def full(row: Any) -> Any:
        return lax.broadcast_in_dim(row, x.shape, (axis,))

    def total(array: Any) -> Any:
        return lax.reduce(array, array.dtype.type(0), lax.add, summed)

    return full, total, count


def gradients(
    axis: int, epsilon: float, x: Any, scale: Any, mean: Any, variance: Any, grad: Any
) -> tuple[Any, Any, Any]:
    """The gradients of operand, scale and offset, expanded as in XLA."""
    full, total, count = over_features(x, axis)
    centered = x - full(mean)
    shifted = variance + epsilon
    inverse = lax.rsqrt(shifted)
    products, offset_gradient = total(grad * centered), total(grad)
    factor = scale * inverse / count
    scaled = grad * count - full(offset_gradient) - centered * full(products / shifted)
    return scaled * full(factor), products * inverse, offset_gradient


@rewrites("stablehlo.select_and_scatter", sharded=True)
def expand_select_and_scatter(call: IrOperation) -> None:
    """Replace the gradient of max pooling with slices, selections and pads.

        stablehlo.select_and_scatter  =>  slice, compare, select, pad, add

    IREE 3.13 refuses padded and overlapping windows (every ResNet's stem), and LiteRT 2.3 all
    windows. The bits are those of StableHLO's definition, also for equal elements and NaN: a
    window's elements are compared in their order, and an element adds up the gradients of windows
    in the order of the windows. XLA's own bits differ for some uneven windows with equal elements.

    Operations that compare floats in total order, or combine in another way than by sums, stay.

    Raises:
        UnsupportedOperationError: an operation has a dynamic shape.
    """
    windows = _windows(call)
    if windows is not None:
        expand(call, windows.gradient)


@dataclass(frozen=True)
class _Windows:
    """The windows of one operation. Lists have a number for each dimension."""

    sizes: list[int]
    strides: list[int]
    low: list[int]
    high: list[int]
    comparison: str
    """JAX's name of the comparison that keeps the element that was selected so far."""

    def gradient(self, x: Any, source: Any, init: Any) -> Any:
        """The gradient of the operand `x`, from the gradient of each window."""
        zero = np.zeros((), x.dtype)
        padded = self._padded(x, zero)
        inside = self._padded(lax.full(x.shape, 1, np.int32), np.int32(0))
        selected = self._selected(padded, inside, source.shape)
        # An element is the last one in its first window, so the offsets are reversed.
        total = lax.broadcast(init, padded.shape)
        for number, offset in reversed([*enumerate(self._offsets)]):
            is_selected = lax.eq(selected, lax.full_like(selected, number))
            share = lax.select(is_selected, source, lax.full_like(source, 0))
            ends = self._ends(offset, source.shape)
            bounds = zip(offset, padded.shape, ends, self.strides, strict=True)
            around = [(start, size - end, stride - 1) for start, size, end, stride in bounds]
            total = lax.add(total, lax.pad(share, zero, around))
        return lax.pad(total, zero, [(-a, -b, 0) for a, b in zip(self.low, self.high, strict=True)])

    def _selected(self, padded: Any, inside: Any, counts: Sequence[int]) -> Any:
        """For each window, the number of the offset of the selected element."""
        compare = getattr(lax, self.comparison)
        best: Any = None
        for number, offset in enumerate(self._offsets):
            ends = self._ends(offset, counts)
            element = lax.slice(padded, offset, ends, self.strides)
            position = lax.full(counts, number, np.int32)
            is_inside = lax.slice(inside, offset, ends, self.strides)
            is_inside = lax.ne(is_inside, lax.full_like(is_inside, 0))
            if best is None:
                best, selected, has_best = element, position, is_inside
                continue
            keep = compare(best, element)
            if any((*self.low, *self.high)):
                keep = lax.bitwise_or(lax.bitwise_and(keep, has_best), lax.bitwise_not(is_inside))
                has_best = lax.bitwise_or(has_best, is_inside)
            best = lax.select(keep, best, element)
            selected = lax.select(keep, selected, position)
        return selected

    @property
    def _offsets(self) -> list[tuple[int, ...]]:
        """The offsets of a window's elements, in their order."""
        return list(product(*map(range, self.sizes)))

    def _ends(self, offset: Sequence[int], counts: Sequence[int]) -> list[int]:
        """The ends of the slice of all elements at one offset in their windows."""
        bounds = zip(offset, counts, self.strides, strict=True)
        return [start + (count - 1) * stride + 1 for start, count, stride in bounds]

    def _padded(self, array: Any, value: Any) -> Any:
        return lax.pad(array, value, [(a, b, 0) for a, b in zip(self.low, self.high, strict=True)])


def _windows(call: IrOperation) -> _Windows | None:
    """The windows of an operation; None if it selects or combines elements in another way."""
    _check_static(call)
    select, scatter = call.regions
    comparison = only_operation(select)
    if comparison is None or (combination(select), combination(scatter)) != ("compare", "add"):
        return None
    is_total = "TOTALORDER" in str(attributes(comparison).get("compare_type"))
    if is_total or list(comparison.operands) != list(select.blocks[0].arguments):
        return None
    rank = call.operands[0].type.rank
    named, defaults = attributes(call), [1] * rank
    around = [int(size) for size in named.get("padding", [0] * (2 * rank))]
    return _Windows(
        sizes=[int(size) for size in named.get("window_dimensions", defaults)],
        strides=[int(size) for size in named.get("window_strides", defaults)],
        low=around[::2],
        high=around[1::2],
        comparison=comparison_direction(comparison).lower(),
    )


def _check_static(call: IrOperation) -> None:
    """Refuse an operation of dynamic shape."""
    if not all(operand.type.has_static_shape for operand in call.operands):
        type_ = call.operands[0].type
        raise UnsupportedOperationError(f"{call.name} of {type_}: refine its shape first")
