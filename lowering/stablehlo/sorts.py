"""The comparison of a `stablehlo.sort`, for a pass and a refusal."""

from .bindings import attributes, direction_of, made_by
from .ir_types import IrOperation, IrValue

OPERATION = "stablehlo.sort"


def comparison(sort: IrOperation) -> tuple[int, str, bool] | None:
    """The comparison of a sort: the operand's number, `LT` or another direction in which an element
    comes before the next one, and whether floats are in total order. None if its region is not one
    comparison of elements of one operand."""
    block = sort.regions[0].blocks[0]
    compare, *rest = (operation.operation for operation in block.operations)
    if compare.name != "stablehlo.compare" or len(rest) != 1:
        return None
    arguments, read = list(block.arguments), list(compare.operands)
    direction = direction_of(compare)
    is_total = "TOTALORDER" in str(attributes(compare).get("compare_type"))
    for number in range(len(sort.operands)):
        pair = arguments[2 * number : 2 * number + 2]
        if read == pair:
            return number, direction, is_total
        if read == pair[::-1]:
            return number, {"L": "G", "G": "L"}.get(direction[0], "") + direction[1:], is_total
    return None


def dimension(sort: IrOperation) -> int:
    """The dimension that is sorted, counted from the first."""
    return int(attributes(sort)["dimension"].value) % max(1, len(sort.operands[0].type.shape))


def is_top_k(sort: IrOperation) -> bool:
    """Return whether LiteRT 2.3 makes its operator TOPK_V2 of a sort: numbers and their indices
    along the last dimension, the greatest first by GT, with indices that are read."""
    compared = comparison(sort)
    if compared is None or compared[:2] != (0, "GT") or len(sort.operands) != 2:
        return False
    first = sort.regions[0].blocks[0].operations[0].operation
    if direction_of(first) != "GT":  # LT of the other order
        return False
    numbers, places = sort.operands
    last = len(numbers.type.shape) - 1
    return (
        str(numbers.type.element_type) in ("f32", "i32")
        and dimension(sort) == last
        and _is_iota(places, last)
        and any(True for _ in sort.results[1].uses)
    )


def _is_iota(value: IrValue, dim: int) -> bool:
    owner = made_by(value, "stablehlo.iota")
    return (
        owner is not None
        and attributes(owner)["iota_dimension"].value == dim
        and str(value.type.element_type) == "i32"
    )
