"""widen_byte_sums: add up bytes as i32.

    reduce_window(%x: tensor<2x16xui8>) applies add
    =>
    convert(reduce_window(convert %x : tensor<2x16xi32>) applies add)

These are sums of booleans and of small integers in their own type, such as `cumsum` of a mask.
LiteRT 2.3 and IREE 3.13 refuse those of ui8. The result has the same bits: both wrap around.
"""

from ..bindings import IrOperation, attributes, building, ir
from ..in_place import rewrites
from ..insertion import converted, integer_type, resized

_BYTES = ("ui8", "i8")


@rewrites("stablehlo.reduce", "stablehlo.reduce_window")
def widen_byte_sums(reduction: IrOperation) -> None:
    """Widen every sum of ui8 or i8. Sums of several operands, or with shardings, stay."""
    element = str(reduction.results[0].type.element_type)
    add, *rest = (operation.operation for operation in reduction.regions[0].blocks[0].operations)
    is_sum = add.name == "stablehlo.add" and len(rest) == 1
    if len(reduction.results) > 1 or element not in _BYTES or not is_sum:
        return
    wide, narrow = integer_type(reduction, 32), reduction.results[0].type
    operands = [converted(reduction, operand, wide) for operand in reduction.operands]
    with building(reduction.context):
        sums = ir().Operation.create(
            reduction.name,
            results=[resized(narrow, element=wide)],
            operands=operands,
            attributes=attributes(reduction),
            regions=1,
            loc=reduction.location,
            ip=ir().InsertionPoint(reduction),
        )
        scalar = ir().RankedTensorType.get([], wide)
        block = sums.regions[0].blocks.append(scalar, scalar, arg_locs=[reduction.location] * 2)
        with ir().InsertionPoint(block), reduction.location:
            total = ir().Operation.create(
                "stablehlo.add", results=[scalar], operands=[*block.arguments]
            )
            ir().Operation.create("stablehlo.return", operands=[total.results[0]])
    result = converted(reduction, sums.results[0], narrow.element_type)
    reduction.results[0].replace_all_uses_with(result)
    reduction.erase()
