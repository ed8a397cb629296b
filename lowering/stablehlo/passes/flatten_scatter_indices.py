"""flatten_scatter_indices: make scatters into several dimensions scatters of rows.

    scatter(%x: tensor<4x5x3xf32>, %i: tensor<7x2xi64>, %u: tensor<7x3xf32>) applies add
    =>
    %inside = %i is inside of 4x5
    %rows = reshape %x : tensor<20x3xf32>
    %row = select(%inside, %i[:, 0] * 5 + %i[:, 1], 0) : tensor<7x1xi32>
    scatter(%rows, %row, select(%inside, %u, -0.0)) applies add

IREE 3.13 refuses scatters with several index dimensions and some scatters with i64 indices, such as
that of `index_put`. For an index outside of the operand, it writes outside of the buffer. So the
update of such an index is replaced by an update without effect. Updates that replace elements go to
a row that is added and cut off. The result has the same bits.
"""

from functools import partial
from typing import Any

from composites.lazy_modules import lax

from ..combinations import neutral_element
from ..in_place import rewrites
from ..insertion import attribute, created, replace_by
from ..ir_types import IrOperation
from ..scatters import OPERATION, ROWS, RowScatter
from .expansion import computed


@rewrites(OPERATION)
def flatten_scatter_indices(scatter: IrOperation) -> None:
    """Flatten every scatter of whole rows. Scatters with several operands, dynamic shapes, ui64
    indices or shardings stay, and so do scatters whose updates are parts of rows."""
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
