"""narrow_scatter_indices: give scatters i32 indices.

    scatter(x, %i: tensor<5x1xi64>, ..)  =>  scatter(x, convert(clamp(-1, %i, 2147483647)), ..)

IREE 3.13 fails on some scatters with i64 indices, such as that of `index_put`. An index outside of
the operand stays outside, since it is clamped before it is converted.
"""

from ..bindings import IrModule, IrOperation, find_operations
from ..in_place import in_place
from ..insertion import constant, converted, inserted, integer_type, resized

OPERATION = "stablehlo.scatter"
_GREATEST = 2**31 - 1


@in_place
def narrow_scatter_indices(module: IrModule) -> None:
    """Narrow the i64 indices of every scatter into dimensions of fewer than 2**31 elements.
    Scatters with dynamic shapes stay."""
    for scatter in find_operations(module.operation, OPERATION):
        target, indices = scatter.operands[0].type, scatter.operands[len(scatter.results)].type
        is_known = target.has_static_shape and indices.has_static_shape
        is_small = is_known and all(size <= _GREATEST for size in target.shape)
        if is_small and str(indices.element_type) == "i64":
            _narrow(scatter, len(scatter.results))


def _narrow(scatter: IrOperation, place: int) -> None:
    """Clamp and convert an operand."""
    indices = scatter.operands[place]
    scalar = resized(indices.type, [])
    least, greatest = (constant(scatter, scalar, str(number)) for number in (-1, _GREATEST))
    inside = inserted(scatter, "stablehlo.clamp", indices.type, least, indices, greatest)
    scatter.operands[place] = converted(scatter, inside, integer_type(scatter, 32))
