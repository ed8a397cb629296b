"""widen_unsigned_comparisons: compare unsigned integers as wider signed integers.

    compare LT, %x, %y : tensor<4xui32>  =>  compare LT, convert %x, convert %y : tensor<4xi64>

LiteRT 2.3 has no comparisons of unsigned integers. ui64 has no wider type, and stays.
"""

from ..bindings import attributes
from ..in_place import rewrites
from ..insertion import attribute, converted, integer_type
from ..ir_types import IrOperation

_WIDER = {"ui8": 32, "ui16": 32, "ui32": 64}


@rewrites("stablehlo.compare", sharded=True)
def widen_unsigned_comparisons(comparison: IrOperation) -> None:
    """Widen every comparison of ui8, ui16 and ui32."""
    width = _WIDER.get(str(comparison.operands[0].type.element_type))
    if width is None:
        return
    wide = integer_type(comparison, width)
    for index, operand in enumerate(comparison.operands):
        comparison.operands[index] = converted(comparison, operand, wide)
    if "compare_type" in attributes(comparison):
        comparison.attributes["compare_type"] = attribute(
            comparison, "#stablehlo<comparison_type SIGNED>"
        )
