"""widen_unsigned_comparisons: compare unsigned integers as signed ones that hold all of them.

    compare LT, %x, %y : tensor<4xui32>  =>  compare LT, convert %x, convert %y : tensor<4xi64>

LiteRT 2.3 has no comparisons of unsigned integers. ui64 has no wider type, and stays.
"""

from ..bindings import IrModule, attributes, find_operations
from ..in_place import in_place
from ..insertion import attribute, converted, integer_type

OPERATION = "stablehlo.compare"
_WIDER = {"ui8": 32, "ui16": 32, "ui32": 64}


@in_place
def widen_unsigned_comparisons(module: IrModule) -> None:
    """Widen every comparison of ui8, ui16 and ui32."""
    for comparison in find_operations(module.operation, OPERATION):
        width = _WIDER.get(str(comparison.operands[0].type.element_type))
        if width is None:
            continue
        wide = integer_type(comparison, width)
        for place, operand in enumerate(comparison.operands):
            comparison.operands[place] = converted(comparison, operand, wide)
        if "compare_type" in attributes(comparison):
            comparison.attributes["compare_type"] = attribute(
                comparison, "#stablehlo<comparison_type SIGNED>"
            )
