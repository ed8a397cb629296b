"""widen_byte_sums: add up bytes as i32.

    reduce_window(%x: tensor<2x16xui8>) applies add
    =>
    convert(reduce_window(convert %x : tensor<2x16xi32>) applies add)

Such operations are sums of booleans and of small integers in their own type, such as `cumsum` of a
mask. LiteRT 2.3 and IREE 3.13 refuse sums of ui8. The result has the same bits: both wrap around.
"""

from ..combinations import only_operation
from ..data_movement import retype
from ..in_place import rewrites
from ..insertion import converted, integer_type
from ..ir_types import IrOperation

_BYTES = ("ui8", "i8")


@rewrites("stablehlo.reduce", "stablehlo.reduce_window")
def widen_byte_sums(reduction: IrOperation) -> None:
    """Widen every sum of ui8 or i8. Sums of several operands, or with shardings, stay."""
    element = str(reduction.results[0].type.element_type)
    add = only_operation(reduction.regions[0])
    if element not in _BYTES or add is None or add.name != "stablehlo.add":
        return
    wide, result = integer_type(reduction, 32), reduction.results[0]
    for index, operand in enumerate(reduction.operands):
        reduction.operands[index] = converted(reduction, operand, wide)
    narrow = converted(reduction, result, result.type.element_type)
    back = narrow.owner.operation
    back.move_after(reduction)
    result.replace_all_uses_except(narrow, back)
    for value in (result, *reduction.regions[0].blocks[0].arguments, add.results[0]):
        retype(value, wide)
