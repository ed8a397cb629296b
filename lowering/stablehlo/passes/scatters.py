"""Scatters in the forms that IREE and LiteRT have."""

from collections.abc import Callable
from functools import partial
from typing import Any

from composites.lazy_modules import lax, np

from ..combinations import IN_JAX, neutral_element
from ..dtypes import numpy_dtype
from ..in_place import rewrites
from ..insertion import (
    attribute,
    constant,
    converted,
    created,
    inserted,
    integer_type,
    replace_by,
    resized,
)
from ..ir_types import IrOperation
from ..scatters import OPERATION, ROWS, RowScatter
from .expansion import computed, expands

FEW = 2**16
"""The largest product of rows, updates and width for which updates are selected and reduced."""
MANY = 2**28
"""The largest number of elements of a matrix: 1 GiB of f32."""
_FLOATS = {"f32": "f32", "f64": "f64", "f16": "f32", "bf16": "f32"}
"""The accumulator types of products, by element type."""


@expands(OPERATION)
def expand_scatter_additions(scatter: IrOperation) -> Callable[..., Any] | None:
    """Replace scatters of whole rows that combine numbers by comparisons and sums.

        scatter(%x: tensor<10x16xf32>, %i: tensor<24xi64>, %u: tensor<24x16xf32>) applies add
        =>
        %is = compare EQ, iota of the rows, %i : tensor<10x24xi1>
        add %x, dot(convert %is, %u)

    LiteRT 2.3 converts such a scatter, and its runtime refuses it. There are three forms, by size:

    - few elements: select updates by row, and reduce them, for all combinations and types;
    - sums of floats, no more rows than updates: a product with a matrix of ones and zeros, of the
      size [rows, updates];
    - sums of floats, more rows than updates: each update becomes the sum of all updates of its row,
      by a product with a matrix of [updates, updates]; then a scatter, which LiteRT has, replaces
      rows.

    Sums add up in another order than in a loop over the updates. In a product, an infinity or NaN
    in an update becomes NaN in its column of all rows.

    Scatters with several operands, dynamic shapes, ui64 indices or shardings stay, and so do
    scatters that are too large for every form.
    """
    rows = RowScatter.parse(scatter)
    if rows is None or (form := _form(rows)) is None:
        return None
    return lambda *operands: rows.restored(form(rows, *rows.split(*operands)))


Form = Callable[[RowScatter, Any, Any, Any], Any]
"""A function from a scatter, its rows, the positions of updates, and updates to the new rows."""


def _form(scatter: RowScatter) -> Form | None:
    """The form of a scatter; None to leave it."""
    if not scatter.combination:
        return None
    is_selected = neutral_element(scatter.combination, scatter.element) is not None
    if is_selected and scatter.rows * scatter.count * scatter.width <= FEW:
        return _selected
    if scatter.combination != "add" or scatter.element not in _FLOATS:
        return None
    if scatter.count * min(scatter.rows, scatter.count) > MANY:
        return None
    return _by_row if scatter.rows <= scatter.count else _by_update


def _selected(scatter: RowScatter, rows: Any, positions: Any, updates: Any) -> Any:
    neutral = neutral_element(scatter.combination, scatter.element)
    combine = getattr(lax, IN_JAX[scatter.combination])
    sizes = (*rows.shape[:1], *updates.shape)
    matches = lax.broadcast_in_dim(_matches_row(rows, positions), sizes, (0, 1))
    every = lax.broadcast_in_dim(updates, sizes, (1, 2))
    chosen = lax.select(matches, every, lax.full(sizes, neutral))
    # JAX's own sums start from 0.0; this sum starts from -0.0.
    return combine(rows, lax.reduce(chosen, neutral, lambda a, b: combine(a, b), (1,)))


def _by_row(scatter: RowScatter, rows: Any, positions: Any, updates: Any) -> Any:
    return rows + _sums(scatter, _matches_row(rows, positions), updates)


def _by_update(scatter: RowScatter, rows: Any, positions: Any, updates: Any) -> Any:
    pairs = (scatter.count, scatter.count)
    left, right = (lax.broadcast_in_dim(positions, pairs, (dim,)) for dim in (0, 1))
    sums = _sums(scatter, lax.eq(left, right), updates)
    at = positions.reshape(scatter.count, 1)
    numbers = lax.GatherDimensionNumbers((1,), (0,), (0,))
    before = lax.gather(rows, at, numbers, (1, scatter.width), mode="promise_in_bounds")
    # Updates at positions outside of the rows are dropped.
    return lax.scatter(
        rows, at, before + sums, lax.ScatterDimensionNumbers((1,), (0,), (0,)), mode="drop"
    )


def _matches_row(rows: Any, positions: Any) -> Any:
    """For each row, booleans that select its updates."""
    pairs = (*rows.shape[:1], *positions.shape)
    row = lax.broadcasted_iota(np.int32, pairs, 0)
    return lax.eq(row, lax.broadcast_in_dim(positions, pairs, (1,)))


def _sums(scatter: RowScatter, is_added: Any, updates: Any) -> Any:
    """For each row of booleans, the sum of the selected updates."""
    wide = numpy_dtype(_FLOATS[scatter.element])
    numbers = (((1,), (0,)), ((), ()))
    factors, terms = is_added.astype(wide), updates.astype(wide)
    return lax.dot_general(factors, terms, numbers, precision="highest").astype(updates.dtype)


@rewrites(OPERATION)
def flatten_scatter_indices(scatter: IrOperation) -> None:
    """Make scatters of whole rows into several dimensions scatters into one.

        scatter(%x: tensor<4x5x3xf32>, %i: tensor<7x2xi64>, %u: tensor<7x3xf32>) applies add
        =>
        %inside = %i is inside of 4x5
        %rows = reshape %x : tensor<20x3xf32>
        %row = select(%inside, %i[:, 0] * 5 + %i[:, 1], 0) : tensor<7x1xi32>
        scatter(%rows, %row, select(%inside, %u, -0.0)) applies add

    IREE 3.13 refuses scatters with several index dimensions and some scatters with i64 indices,
    such as that of `index_put`. For an index outside of the operand, it writes outside of the
    buffer. So the update of such an index is replaced by an update without effect. Updates that
    replace elements go to a row that is added and cut off. The result has the same bits.

    Scatters with several operands, dynamic shapes, ui64
    indices or shardings stay, and so do scatters whose updates are parts of rows.
    """
    rows = RowScatter.parse(scatter)
    if rows is None:
        return
    operands = computed(scatter, partial(_flat, rows), *scatter.operands)
    numbers, not_unique = attribute(scatter, ROWS), attribute(scatter, "false")
    written = {"scatter_dimension_numbers": numbers, "unique_indices": not_unique}
    flat = created(scatter, OPERATION, [operands[0].type], operands, written, regions=1)
    scatter.regions[0].blocks[0].append_to(flat.regions[0])
    (result,) = computed(scatter, lambda x: rows.restored(x[: rows.rows]), flat.results[0])
    replace_by(scatter, result)


def _flat(scatter: RowScatter, *operands: Any) -> tuple[Any, Any, Any]:
    """The operands of the scatter of rows, with all indices inside, and perhaps one more row."""
    rows, positions, updates = scatter.split(*operands)
    neutral = None
    if scatter.combination:
        neutral = neutral_element(scatter.combination, scatter.element)
    is_outside = positions == -1
    spare = lax.full_like(positions, scatter.rows * (neutral is None))
    safe = lax.select(is_outside, spare, positions)
    at = safe.reshape(scatter.count, 1)
    if neutral is None:
        return lax.concatenate([rows, lax.slice_in_dim(rows, 0, 1)], 0), at, updates
    are_outside = lax.broadcast_in_dim(is_outside, updates.shape, (0,))
    return rows, at, lax.select(are_outside, lax.full_like(updates, neutral), updates)


_GREATEST = 2**31 - 1


@rewrites(OPERATION, sharded=True)
def narrow_scatter_indices(scatter: IrOperation) -> None:
    """Narrow i64 indices of scatters into dimensions of fewer than 2**31 elements.

        scatter(x, %i: tensor<5x1xi64>, ..)  =>  scatter(x, convert(clamp(-1, %i, 2147483647)), ..)

    IREE 3.13 fails on some scatters with i64 indices, such as the scatter of `index_put`. An index
    outside of the operand stays outside, since it is clamped before it is converted.

    Scatters with dynamic shapes stay.
    """
    position = len(scatter.results)
    target, indices = scatter.operands[0].type, scatter.operands[position]
    is_static = target.has_static_shape and indices.type.has_static_shape
    is_small = is_static and all(size <= _GREATEST for size in target.shape)
    if not is_small or str(indices.type.element_type) != "i64":
        return
    scalar = resized(indices.type, [])
    least, greatest = (constant(scatter, scalar, number) for number in (-1, _GREATEST))
    inside = inserted(scatter, "stablehlo.clamp", indices.type, least, indices, greatest)
    scatter.operands[position] = converted(scatter, inside, integer_type(scatter, 32))
