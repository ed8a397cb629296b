"""use_booleans: compute with booleans where bytes hold them.

    %0 = convert %a : tensor<4xi1> to tensor<4xui8>
    %1 = convert %b : tensor<4xi1> to tensor<4xui8>
    %2 = and %0, %1 : tensor<4xui8>
    %3 = compare NE, %2, 0 : tensor<4xi1>
    =>
    %3 = and %a, %b : tensor<4xi1>

torch_xla 2.9 writes this for logic of booleans. LiteRT 2.3 has no `and` or comparisons of bytes.
"""

from ..bindings import (
    IrModule,
    IrOperation,
    IrValue,
    attributes,
    defining_operation,
    direction_of,
    find_operations,
    number_of,
    splat_value,
)
from ..data_movement import DATA_MOVEMENT, data_operands
from ..erasing import erase_unread
from ..in_place import in_place
from ..insertion import attribute, constant, inserted, integer_type, resized
from ..sharding_attributes import is_sharded

COMPARISON = "stablehlo.compare"
_LOGIC = ("stablehlo.and", "stablehlo.or", "stablehlo.xor")
_MOVES = tuple(name for name in DATA_MOVEMENT if name != "stablehlo.dynamic_update_slice")
_BYTES = ("ui8", "i8")


@in_place
def use_booleans(module: IrModule) -> None:
    """Compare booleans where bytes made from them are compared for equality, with 0 or with each
    other. Operations that nothing reads then are removed. Bytes with shardings stay."""
    known: dict[IrValue, IrValue] = {}
    unread: list[IrValue] = []
    for comparison in find_operations(module.operation, COMPARISON):
        left, right = comparison.operands
        if str(left.type.element_type) not in _BYTES or is_sharded(comparison):
            continue
        direction = direction_of(comparison)
        if direction not in ("EQ", "NE") or not (_is_boolean(left) and _is_boolean(right)):
            continue
        first, second = (_boolean(each, known) for each in (left, right))
        _compare(comparison, direction, first, second)
        unread += (left, right)
    erase_unread(unread, (*_LOGIC, *_MOVES))


def _compare(comparison: IrOperation, direction: str, left: IrValue, right: IrValue) -> None:
    """Put a comparison of booleans in the place of one of bytes; none where one is `NE false`."""
    number, result = number_of(right), left
    if direction != "NE" or number is None or number:
        result = inserted(
            comparison,
            COMPARISON,
            comparison.results[0].type,
            left,
            right,
            comparison_direction=attributes(comparison)["comparison_direction"],
        )
    comparison.results[0].replace_all_uses_with(result)
    comparison.erase()


def _is_boolean(value: IrValue) -> bool:
    """Return whether all elements are 0 or 1, made of booleans."""
    owner = defining_operation(value)
    if owner is None or is_sharded(owner):
        return False
    if owner.name == "stablehlo.constant":
        return splat_value(owner) in (0, 1)
    if owner.name == "stablehlo.convert":
        return str(owner.operands[0].type.element_type) == "i1"
    places = _data(owner)
    return bool(places) and all(_is_boolean(owner.operands[place]) for place in places)


def _data(operation: IrOperation) -> list[int]:
    """The places of the operands that a result's elements come from; none for what is not known."""
    if operation.name in _LOGIC:
        return [0, 1]
    return data_operands(operation) if operation.name in _MOVES else []


def _boolean(value: IrValue, known: dict[IrValue, IrValue]) -> IrValue:
    """The booleans that bytes were made from, computed where the bytes are."""
    if value not in known:
        owner = defining_operation(value)
        known[value] = _as_boolean(owner, known)
    return known[value]


def _as_boolean(owner: IrOperation, known: dict[IrValue, IrValue]) -> IrValue:
    if owner.name == "stablehlo.convert":
        return owner.operands[0]
    type_ = resized(owner.results[0].type, element=integer_type(owner, 1))
    if owner.name == "stablehlo.constant":
        return constant(owner, type_, "true" if splat_value(owner) else "false")
    operands = [*owner.operands]
    for place in _data(owner):
        operands[place] = _boolean(operands[place], known)
    if owner.name == "stablehlo.xor":  # LiteRT 2.3 has none of booleans
        unequal = attribute(owner, "#stablehlo<comparison_direction NE>")
        return inserted(owner, COMPARISON, type_, *operands, comparison_direction=unequal)
    kept = {name: value for name, value in attributes(owner).items() if name != "xla_shape"}
    return inserted(owner, owner.name, type_, *operands, **kept)
