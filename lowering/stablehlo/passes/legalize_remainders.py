"""legalize_remainders: take remainders of numbers without a sign.

    remainder(%x, %y)  =>  select(%x LT 0, negate %r, %r),
                           with %r = remainder(maximum(%x, negate %x), maximum(%y, negate %y))

LiteRT 2.3 computes a remainder with the sign of the divisor, without an error, and has no `abs` of
i64. The result has the same bits, except for the sign of zero where `x` is -0.0.
"""

from string import Template

from ..bindings import IrModule, IrValue, defining_operation, find_operations
from ..dtypes import shape_and_element_type
from ..in_place import in_place
from ..inlining import inline_text
from ..insertion import integer_type, resized
from ..options import switch
from ..sharding_attributes import is_sharded

OPERATION = "stablehlo.remainder"

_LEGAL = Template("""
func.func private @remainder(%x: $type, %y: $type) -> $type {
  %zero = stablehlo.constant dense<$zero> : $type
  %minus_x = stablehlo.negate %x : $type
  %minus_y = stablehlo.negate %y : $type
  %dividend = stablehlo.maximum %x, %minus_x : $type
  %divisor = stablehlo.maximum %y, %minus_y : $type
  %size = stablehlo.remainder %dividend, %divisor : $type
  %opposite = stablehlo.negate %size : $type
  %is_negative = stablehlo.compare LT, %x, %zero : ($type, $type) -> $truth
  %result = stablehlo.select %is_negative, %opposite, %size : $truth, $type
  return %result : $type
}
""")


@in_place
def legalize_remainders(module: IrModule) -> None:
    """Change every remainder of numbers that may be negative. Those with dynamic shapes or
    shardings stay."""
    for remainder in find_operations(module.operation, OPERATION):
        type_ = remainder.results[0].type
        found = shape_and_element_type(str(type_))
        is_signed = found is not None and not found[1].startswith("ui")
        if not is_signed or is_sharded(remainder) or all(map(_is_size, remainder.operands)):
            continue
        is_integer = str(type_.element_type).startswith("i")
        text = _LEGAL.substitute(
            type=type_,
            truth=resized(type_, element=integer_type(remainder, 1)),
            zero="0" if is_integer else "0.0",
        )
        inline_text(remainder, text, "<remainder>")


def _is_size(value: IrValue) -> bool:
    """Whether a value is the greater one of a number and its opposite."""
    owner = defining_operation(value)
    if owner is None or owner.name != "stablehlo.maximum":
        return False
    number, opposite = owner.operands
    negation = defining_operation(opposite)
    return (
        negation is not None
        and negation.name == "stablehlo.negate"
        and negation.operands[0] == number
    )


OPTIONS = switch(
    "--legalize-remainders", legalize_remainders, "Take remainders of numbers without a sign."
)
