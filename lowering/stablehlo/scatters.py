"""Scatters as scatters of rows: a step that two passes share.

    scatter of any dimension numbers  =>  rows [N, W], positions [M] of i32, updates [M, W]

`positions` are numbers of rows, and -1 for indices outside of the operand.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from composites.lazy_modules import lax, np

from .bindings import scatter_dimensions
from .combinations import IN_JAX, combination
from .ir_types import IrOperation

OPERATION = "stablehlo.scatter"
_GREATEST = 2**31 - 1
_AS_I64 = ("i64", "ui32", "ui16", "ui8")
"""Element types of indices that are converted to i64."""


@dataclass(frozen=True)
class RowScatter:
    """A scatter whose updates are whole rows of its operand, once the operand is transposed."""

    element: str
    index: str
    """The element type of the indices."""
    sizes: tuple[int, ...]
    index_sizes: tuple[int, ...]
    update_sizes: tuple[int, ...]
    numbers: Any
    """The dimension numbers."""
    combination: str
    """A key of `combinations.IN_JAX`; empty if an update replaces an element."""

    @classmethod
    def parse(cls, scatter: IrOperation) -> "RowScatter | None":
        """Parse a scatter of rows. Return None for several operands, a dynamic shape, indices of
        ui64, updates of parts of rows, or another combination."""
        if len(scatter.results) != 1:
            return None
        types = [operand.type for operand in scatter.operands]
        combination = _combination(scatter)
        if combination is None or not all(type_.has_static_shape for type_ in types):
            return None
        parsed = cls(
            element=str(types[0].element_type),
            index=str(types[1].element_type),
            sizes=tuple(types[0].shape),
            index_sizes=tuple(types[1].shape),
            update_sizes=tuple(types[2].shape),
            numbers=scatter_dimensions(scatter),
            combination=combination,
        )
        is_signed = parsed.index in ("i32", *_AS_I64)
        is_filled = bool(parsed._named) and min(parsed.count, parsed.rows, parsed.width) > 0
        has_rows = _has_rows(parsed.sizes, parsed.update_sizes, parsed.numbers)
        is_small = max(parsed.rows, *parsed.sizes) <= _GREATEST
        return parsed if is_signed and is_filled and is_small and has_rows else None

    @property
    def rows(self) -> int:
        """N: the number of rows of the operand."""
        return prod(self.sizes[dim] for dim in self._named)

    @property
    def width(self) -> int:
        """W: the number of elements of a row."""
        return prod(self.sizes) // max(1, self.rows)

    @property
    def count(self) -> int:
        """M: the number of rows of the updates."""
        return prod(self._counts)

    def split(self, operand: Any, indices: Any, updates: Any) -> tuple[Any, Any, Any]:
        """The rows, positions and updates of a scatter's operands, which are JAX arrays."""
        rows = operand.transpose(self._order).reshape(self.rows, self.width)
        window = self.numbers.update_window_dims
        order = [*(dim for dim in range(updates.ndim) if dim not in window), *window]
        update_rows = updates.transpose(order).reshape(self.count, self.width)
        return rows, self._positions(indices), update_rows

    def restored(self, rows: Any) -> Any:
        """The scatter's result, restored from its rows."""
        ordered = rows.reshape([self.sizes[dim] for dim in self._order])
        return ordered.transpose([self._order.index(dim) for dim in range(len(self.sizes))])

    def _positions(self, indices: Any) -> Any:
        vector = [self.numbers.index_vector_dim] if len(self._counts) < indices.ndim else []
        table = indices.transpose([*self._index_order, *vector])
        table = table.reshape(self.count, len(self.numbers.scattered_dims_to_operand_dims))
        table = table.astype(np.int64 if self.index in _AS_I64 else np.int32)
        parts, is_inside = [], None
        for dim in self.numbers.scatter_indices_batching_dims:
            number = lax.broadcasted_iota(np.int32, self._counts, self._index_order.index(dim))
            parts.append(number.reshape(self.count))
        for column, dim in enumerate(self.numbers.scattered_dims_to_operand_dims):
            index = lax.index_in_dim(table, column, 1, keepdims=False)
            least, most = (lax.full_like(index, end) for end in (0, self.sizes[dim] - 1))
            near = lax.min(lax.max(index, least), most)
            parts.append(near.astype(np.int32))
            is_near = lax.eq(near, index)
            is_inside = is_near if is_inside is None else is_inside & is_near
        position = parts[0]
        for part, dim in zip(parts[1:], self._named[1:], strict=True):
            position = position * np.int32(self.sizes[dim]) + part
        outside = lax.full_like(position, -1)
        return position if is_inside is None else lax.select(is_inside, position, outside)

    @property
    def _named(self) -> tuple[int, ...]:
        """The batch dimensions, and the dimensions that indices refer to."""
        return (*self.numbers.input_batching_dims, *self.numbers.scattered_dims_to_operand_dims)

    @property
    def _order(self) -> list[int]:
        remaining = [dim for dim in range(len(self.sizes)) if dim not in self._named]
        return [*self._named, *remaining]

    @property
    def _index_order(self) -> list[int]:
        """The dimensions of indices without the index vector dimension."""
        vector = self.numbers.index_vector_dim
        return [dim for dim in range(len(self.index_sizes)) if dim != vector]

    @property
    def _counts(self) -> list[int]:
        return [self.index_sizes[dim] for dim in self._index_order]


ROWS = (
    "#stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],"
    " scatter_dims_to_operand_dims = [0], index_vector_dim = 1>"
)
"""The dimension numbers of a scatter of rows, as MLIR text."""


def updates_rows(scatter: IrOperation) -> bool:
    """Return whether the updates of a scatter of static shapes are whole rows."""
    sizes, updates = (scatter.operands[n].type.shape for n in (0, len(scatter.results) + 1))
    return _has_rows(sizes, updates, scatter_dimensions(scatter))


def _has_rows(sizes: Sequence[int], updates: Sequence[int], numbers: Any) -> bool:
    """Return whether windows have size 1 in indexed dimensions, and the full size in others."""
    absent = {*numbers.inserted_window_dims, *numbers.input_batching_dims}
    windows = [dim for dim in range(len(sizes)) if dim not in absent]
    return all(
        updates[axis] == (1 if dim in numbers.scattered_dims_to_operand_dims else sizes[dim])
        for dim, axis in zip(windows, numbers.update_window_dims, strict=True)
    )


def _combination(scatter: IrOperation) -> str | None:
    """The region's operation on its two arguments; None for an unknown operation."""
    block = scatter.regions[0].blocks[0]
    first = block.operations[0].operation
    if list(first.operands) == [block.arguments[1]] and not first.results:  # the update is returned
        return ""
    name = combination(scatter.regions[0])
    return name if name in IN_JAX else None
