"""legalize_remainders: take remainders of numbers that are not positive.

    remainder(%x, %y)  =>  select(%x LT 0, %r, negate %r),
                           with %r = remainder(minimum(%x, negate %x), minimum(%y, negate %y))

LiteRT 2.3 computes a remainder with the sign of the divisor, without an error, and has no `abs` of
i64. The opposite of a number that is not negative can always be written; that of the least integer
cannot. A dividend of integers is 0 where the divisor is -1, since processors trap when they divide
the least integer by -1. The result has the same bits, except for the sign of zero where `x` is
-0.0.
"""

from string import Template

from ..bindings import IrModule, IrValue, defining_operation, find_operations
from ..dtypes import shape_and_element_type
from ..in_place import in_place
from ..inlining import inline_text
from ..insertion import integer_type, resized
from ..sharding_attributes import is_sharded

OPERATION = "stablehlo.remainder"

_LEGAL = Template("""
func.func private @remainder(%x: $type, %y: $type) -> $type {
  %zero = stablehlo.constant dense<$zero> : $type
  %minus_x = stablehlo.negate %x : $type
  %minus_y = stablehlo.negate %y : $type
  %dividend = stablehlo.minimum %x, %minus_x : $type
  %divisor = stablehlo.minimum %y, %minus_y : $type
  $safe
  %remainder = stablehlo.remainder $operands : $type
  %opposite = stablehlo.negate %remainder : $type
  %is_negative = stablehlo.compare LT, %x, %zero : ($type, $type) -> $truth
  %result = stablehlo.select %is_negative, %remainder, %opposite : $truth, $type
  return %result : $type
}
""")
_SAFE = Template("""
  %minus_one = stablehlo.constant dense<-1> : $type
  %is_one = stablehlo.compare EQ, %divisor, %minus_one : ($type, $type) -> $truth
  %safe = stablehlo.select %is_one, %zero, %dividend : $truth, $type
""")


@in_place
def legalize_remainders(module: IrModule) -> None:
    """Change every remainder of numbers that may be positive. Those with dynamic shapes or
    shardings stay."""
    for remainder in find_operations(module.operation, OPERATION):
        type_ = remainder.results[0].type
        tensor = shape_and_element_type(str(type_))
        is_signed = tensor is not None and not tensor[1].startswith("ui")
        if not is_signed or is_sharded(remainder) or all(map(_is_opposite, remainder.operands)):
            continue
        is_integer = str(type_.element_type).startswith("i")
        types = {"type": type_, "truth": resized(type_, element=integer_type(remainder, 1))}
        text = _LEGAL.substitute(
            types,
            zero="0" if is_integer else "0.0",
            safe=_SAFE.substitute(types) if is_integer else "",
            operands="%safe, %divisor" if is_integer else "%dividend, %divisor",
        )
        inline_text(remainder, text, "<remainder>")


def _is_opposite(value: IrValue) -> bool:
    """Return whether a value is `min(x, -x)` of a number, or is selected from it."""
    owner = defining_operation(value)
    if owner is not None and owner.name == "stablehlo.select":
        owner = defining_operation(owner.operands[2])
    if owner is None or owner.name != "stablehlo.minimum":
        return False
    number, opposite = owner.operands
    negation = defining_operation(opposite)
    return (
        negation is not None
        and negation.name == "stablehlo.negate"
        and negation.operands[0] == number
    )
