"""expand_scatter_additions: replace scatters that combine numbers by comparisons and sums.

    scatter(%x: tensor<10x16xf32>, %i: tensor<24xi64>, %u: tensor<24x16xf32>) applies add
    =>
    %is = compare EQ, iota of the rows, %i : tensor<10x24xi1>
    add %x, dot(convert %is, %u)

LiteRT 2.3 converts such a scatter, and its runtime refuses it. There are three forms, by size:

- few elements: select updates by row, and reduce them, for all combinations and types;
- sums of floats, no more rows than updates: a product with a matrix of ones and zeros, of the
  size [rows, updates];
- sums of floats, more rows than updates: each update becomes the sum of all updates of its row, by
  a product with a matrix of [updates, updates]; then a scatter, which LiteRT has, replaces rows.

Sums add up in another order than in a loop over the updates. In a product, an infinity or NaN in an
update becomes NaN in its column of all rows.
"""

from collections.abc import Callable
from typing import Any

from composites.lazy_modules import lax, np

from ..combinations import IN_JAX, neutral_element
from ..dtypes import numpy_dtype
from ..ir_types import IrOperation
from ..scatters import OPERATION, RowScatter
from .expansion import expands

FEW = 2**16
"""The largest product of rows, updates and width for which updates are selected and reduced."""
MANY = 2**28
"""The largest number of elements of a matrix: 1 GiB of f32."""
_FLOATS = {"f32": "f32", "f64": "f64", "f16": "f32", "bf16": "f32"}
"""The accumulator types of products, by element type."""


@expands(OPERATION)
def expand_scatter_additions(scatter: IrOperation) -> Callable[..., Any] | None:
    """Expand every scatter of whole rows that adds or otherwise combines numbers.

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
