"""compute_splats_as_scalars: compute a function of a constant once, where all elements are equal.

    convert(dense<true> : tensor<2x4xi1>)  =>  broadcast(convert(dense<true> : tensor<i1>))

IREE 3.13 computes wrong sums and products of such values: of a mask of four ones, it counts one.
"""

from ..bindings import attributes, made_by
from ..in_place import rewrites
from ..insertion import created, filled, inserted, integers, replace_by, resized
from ..ir_types import IrOperation, IrValue

_NAMES = (
    *("abs", "cbrt", "ceil", "convert", "cosine", "exponential", "exponential_minus_one"),
    *("floor", "is_finite", "log", "log_plus_one", "logistic", "negate", "not", "popcnt"),
    *("round_nearest_afz", "round_nearest_even", "rsqrt", "sign", "sine", "sqrt", "tan", "tanh"),
)


@rewrites(*(f"stablehlo.{name}" for name in _NAMES))
def compute_splats_as_scalars(operation: IrOperation) -> None:
    """Compute each function of one operand on a scalar, if the operand is a constant of equal
    elements, or a scalar that is broadcast. Functions with dynamic shapes stay."""
    result = operation.results[0]
    scalar = _scalar(operation, operation.operands[0])
    if scalar is None:
        return
    element = resized(result.type, [])
    computed = created(operation, operation.name, [element], [scalar], attributes(operation))
    spread = inserted(
        *(operation, "stablehlo.broadcast_in_dim", result.type, computed.results[0]),
        broadcast_dimensions=integers(operation, []),
    )
    replace_by(operation, spread)


def _scalar(before: IrOperation, value: IrValue) -> IrValue | None:
    """The scalar that all elements of a value equal; None for scalars and varying values."""
    if not value.type.has_static_shape or not value.type.shape:
        return None
    broadcast = made_by(value, "stablehlo.broadcast_in_dim")
    if broadcast is not None and not broadcast.operands[0].type.shape:
        return broadcast.operands[0]
    return filled(before, resized(value.type, []), value)
