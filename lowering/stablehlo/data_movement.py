"""Operations that only move data: their results are elements of their operands, unchanged.

Such an operation has the same meaning for every element type, so a pass may change its type.
Collectives are not included, because this package does not change the communication of devices.
Barriers are not included either, because they must separate the operations on both sides.
"""

from .bindings import defining_operation
from .insertion import resized
from .ir_types import IrOperation, IrType, IrValue

CONVERT = "stablehlo.convert"

# The data operands. The other operands are indices or predicates.
_DATA_OPERANDS = {
    "stablehlo.broadcast_in_dim": slice(0, 1),
    "stablehlo.concatenate": slice(0, None),
    "stablehlo.dynamic_slice": slice(0, 1),
    "stablehlo.dynamic_update_slice": slice(0, 2),
    "stablehlo.gather": slice(0, 1),
    "stablehlo.pad": slice(0, 2),
    "stablehlo.reshape": slice(0, 1),
    "stablehlo.reverse": slice(0, 1),
    "stablehlo.select": slice(1, 3),
    "stablehlo.slice": slice(0, 1),
    "stablehlo.transpose": slice(0, 1),
}
DATA_MOVEMENT = tuple(_DATA_OPERANDS)


def data_operands(operation: IrOperation) -> list[int]:
    """The positions of the operands whose elements a data-moving operation returns."""
    return list(range(len(operation.operands)))[_DATA_OPERANDS[operation.name]]


def element_type(value: IrValue) -> str:
    """The element type of a tensor, such as `bf16`; empty for a value that is not a tensor."""
    return str(value.type.element_type) if hasattr(value.type, "element_type") else ""


def retype(value: IrValue, element: IrType) -> None:
    """Change the element type of a result or argument in place."""
    value.set_type(resized(value.type, element=element))
    # XLA's record of the old type, which it would use when it reads the operation back.
    producer = defining_operation(value)
    if producer is not None and "xla_shape" in producer.attributes:
        del producer.attributes["xla_shape"]
