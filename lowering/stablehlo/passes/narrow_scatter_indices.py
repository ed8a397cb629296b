"""narrow_scatter_indices: give scatters i32 indices.

    scatter(x, %i: tensor<5x1xi64>, ..)  =>  scatter(x, convert(clamp(-1, %i, 2147483647)), ..)

IREE 3.13 fails on some scatters with i64 indices, such as the scatter of `index_put`. An index
outside of the operand stays outside, since it is clamped before it is converted.
"""

from ..in_place import rewrites
from ..insertion import constant, converted, inserted, integer_type, resized
from ..ir_types import IrOperation
from ..scatters import OPERATION

_GREATEST = 2**31 - 1


@rewrites(OPERATION, sharded=True)
def narrow_scatter_indices(scatter: IrOperation) -> None:
    """Narrow the i64 indices of every scatter into dimensions of fewer than 2**31 elements.
    Scatters with dynamic shapes stay."""
    position = len(scatter.results)
    target, indices = scatter.operands[0].type, scatter.operands[position]
    is_static = target.has_static_shape and indices.type.has_static_shape
    is_small = is_static and all(size <= _GREATEST for size in target.shape)
    if not is_small or str(indices.type.element_type) != "i64":
        return
    scalar = resized(indices.type, [])
    least, greatest = (constant(scatter, scalar, str(number)) for number in (-1, _GREATEST))
    inside = inserted(scatter, "stablehlo.clamp", indices.type, least, indices, greatest)
    scatter.operands[position] = converted(scatter, inside, integer_type(scatter, 32))
