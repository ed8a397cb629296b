"""use_booleans: compute with booleans where bytes hold them.

    %0 = convert %a : tensor<4xi1> to tensor<4xui8>
    %1 = convert %b : tensor<4xi1> to tensor<4xui8>
    %2 = and %0, %1 : tensor<4xui8>
    %3 = compare NE, %2, 0 : tensor<4xi1>
    =>
    %3 = and %a, %b : tensor<4xi1>

torch_xla 2.9 writes logic of booleans so. LiteRT 2.3 has no `and` or comparisons of bytes.
"""

from ..bindings import attributes, comparison_direction, find_operations, splat_number
from ..data_movement import CONVERT, DATA_MOVEMENT, data_operands, element_type
from ..in_place import in_place, is_sharded
from ..insertion import (
    attribute,
    constant,
    erase_unread,
    inserted,
    integer_type,
    remade,
    replace_by,
    resized,
)
from ..ir_types import IrModule, IrOperation, IrValue

COMPARISON, _CONSTANT = "stablehlo.compare", "stablehlo.constant"
_LOGIC = ("stablehlo.and", "stablehlo.or", "stablehlo.xor")
_MOVES = tuple(name for name in DATA_MOVEMENT if name != "stablehlo.dynamic_update_slice")
_BYTES = ("ui8", "i8")


@in_place
def use_booleans(module: IrModule) -> None:
    """Compare booleans where bytes made from them are compared for equality, with 0 or with other
    such bytes. Operations that are no longer read are removed. Bytes with shardings stay."""
    booleans: dict[IrValue, IrValue] = {}
    """The booleans that bytes were made from, by the bytes."""
    unread: list[IrValue] = []
    names = (COMPARISON, _CONSTANT, CONVERT, *_LOGIC, *_MOVES)
    for operation in find_operations(module.operation, *names):
        if operation.name == COMPARISON:
            are_booleans = all(value in booleans for value in operation.operands)
            is_equality = are_booleans and comparison_direction(operation) in ("EQ", "NE")
            if is_equality and not is_sharded(operation):
                unread += operation.operands
                _compare(operation, *map(booleans.__getitem__, operation.operands))
        elif element_type(operation.results[0]) in _BYTES and not is_sharded(operation):
            boolean = _as_boolean(operation, booleans)
            if boolean is not None:
                booleans[operation.results[0]] = boolean
    erase_unread([*unread, *booleans.values()], (*_LOGIC, *_MOVES, COMPARISON))


def _compare(comparison: IrOperation, left: IrValue, right: IrValue) -> None:
    """Replace a comparison of bytes by a comparison of booleans, or by `left` for `NE false`."""
    number, result = splat_number(right), left
    if comparison_direction(comparison) != "NE" or number is None or number:
        result = inserted(
            comparison,
            COMPARISON,
            comparison.results[0].type,
            left,
            right,
            comparison_direction=attributes(comparison)["comparison_direction"],
        )
    replace_by(comparison, result)


def _as_boolean(owner: IrOperation, booleans: dict[IrValue, IrValue]) -> IrValue | None:
    """The booleans that an operation's results are made from; None if the results are not bytes 0
    and 1 made from booleans."""
    if owner.name == CONVERT:
        value = owner.operands[0]
        return value if element_type(value) == "i1" else None
    type_ = resized(owner.results[0].type, element=integer_type(owner, 1))
    if owner.name == _CONSTANT:
        number = splat_number(owner.results[0])
        return constant(owner, type_, number) if number in (0, 1) else None
    operands = [*owner.operands]
    for index in [0, 1] if owner.name in _LOGIC else data_operands(owner):
        if operands[index] not in booleans:
            return None
        operands[index] = booleans[operands[index]]
    if owner.name == "stablehlo.xor":  # LiteRT 2.3 has no xor of booleans
        unequal = attribute(owner, "#stablehlo<comparison_direction NE>")
        return inserted(owner, COMPARISON, type_, *operands, comparison_direction=unequal)
    return remade(owner, operands, type_.element_type)
