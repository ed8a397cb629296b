"""Comparisons of element types that LiteRT lacks, in element types that it has."""

from math import ceil, floor, isfinite, nan

from composites.lazy_modules import np

from ..bindings import attributes, comparison_direction, ir, made_by, splat_number
from ..dtypes import as_f32
from ..in_place import rewrites
from ..insertion import attribute, constant, converted, erase_unread, integer_type
from ..ir_types import IrOperation, IrType, IrValue

_TOTAL = "#stablehlo<comparison_type TOTALORDER>"
_SWAPPED = {"GT": "LT", "LT": "GT", "GE": "LE", "LE": "GE", "EQ": "EQ", "NE": "NE"}
_DOWN, _UP = ("GT", "LE"), ("LT", "GE")
_FLOATS = ("f32", "f16", "bf16")
_EXACT = 2**53
"""Integers up to this number are exact in f64. Conversion keeps the order of larger integers."""


@rewrites("stablehlo.compare")
def narrow_comparisons(comparison: IrOperation) -> None:
    """Narrow every comparison in f64 of a converted value with a constant.

        compare GT, (convert %x : f32 -> f64), 0.3 : f64  =>  compare GT, %x, 0x3E999999 : f32

    torch_xla 2.9 compares a tensor with a Python number in f64, as in `where(x > 0.3, …)`, and in
    smooth_l1 and huber loss. LiteRT 2.3 has no such comparisons. The constant is rounded down for
    `x > c` and `x <= c`, and up for `x < c` and `x >= c`, so that the result is the same. f16 and
    bf16, which LiteRT does not compare either, become f32.

    Comparisons of integers for equality with a fraction stay, and so do those with shardings.
    """
    if str(attributes(comparison).get("compare_type")) == _TOTAL:
        return
    values = [_before_conversion(operand) for operand in comparison.operands]
    numbers = [_number(operand) for operand in comparison.operands]
    for position, (value, number) in enumerate(zip(values, reversed(numbers), strict=True)):
        if value is None or number is None:
            continue
        direction = comparison_direction(comparison)
        element = str(value.type.element_type)
        bound = _bound(_SWAPPED[direction] if position else direction, number, element)
        if bound is None:
            continue
        f32 = ir().F32Type.get(comparison.context)
        narrow = converted(comparison, value, f32) if element in _FLOATS[1:] else value
        wide = [*comparison.operands]
        comparison.operands[position] = narrow
        comparison.operands[1 - position] = constant(comparison, narrow.type, bound)
        _set_type(comparison, "FLOAT" if element in _FLOATS else "SIGNED")
        erase_unread(wide, ["stablehlo.broadcast_in_dim"])
        return


def _before_conversion(value: IrValue) -> IrValue | None:
    """The value that is converted to f64, if its type can be compared."""
    owner = made_by(value, "stablehlo.convert")
    if owner is None or not _is_wide(value.type):
        return None
    element = str(owner.operands[0].type.element_type)
    return owner.operands[0] if element in (*_FLOATS, "i8", "i16", "i32", "i64") else None


def _number(value: IrValue) -> float | None:
    """The f64 number that all elements of a value equal."""
    broadcast = made_by(value, "stablehlo.broadcast_in_dim")
    value = value if broadcast is None else broadcast.operands[0]
    return splat_number(value) if _is_wide(value.type) else None


def _is_wide(type_: IrType) -> bool:
    return str(type_.element_type) == "f64"


def _bound(direction: str, number: float, element: str) -> float | None:
    """The number to compare with; None if the element type has no such number."""
    if element in _FLOATS:
        return _float_bound(direction, number)
    if not isfinite(number) or abs(number) >= _EXACT:
        return None
    integer = ceil(number) if direction in _UP else floor(number)
    bits = int(element.removeprefix("i"))
    is_exact = direction in (*_UP, *_DOWN) or integer == number
    return integer if is_exact and -(2 ** (bits - 1)) <= integer < 2 ** (bits - 1) else None


def _float_bound(direction: str, number: float) -> float:
    """The number of f32 to compare with: NaN, which equals no number, if f32 lacks `number`."""
    near = as_f32(number)
    rounded = float(near)
    if direction in _DOWN and rounded > number:
        near = np.nextafter(near, np.float32(-np.inf))
    elif direction in _UP and rounded < number:
        near = np.nextafter(near, np.float32(np.inf))
    elif direction not in (*_DOWN, *_UP) and rounded != number:
        near = np.float32(nan)
    return float(near)


_WIDER = {"ui8": 32, "ui16": 32, "ui32": 64}


@rewrites("stablehlo.compare", sharded=True)
def widen_unsigned_comparisons(comparison: IrOperation) -> None:
    """Compare ui8, ui16 and ui32 as wider signed integers.

        compare LT, %x, %y : tensor<4xui32>  =>  compare LT, convert %x, convert %y : tensor<4xi64>

    LiteRT 2.3 has no comparisons of unsigned integers. ui64 has no wider type, and stays.
    """
    width = _WIDER.get(str(comparison.operands[0].type.element_type))
    if width is None:
        return
    wide = integer_type(comparison, width)
    for index, operand in enumerate(comparison.operands):
        comparison.operands[index] = converted(comparison, operand, wide)
    _set_type(comparison, "SIGNED")


def _set_type(comparison: IrOperation, kind: str) -> None:
    """Change the type of a comparison, if it is written."""
    if "compare_type" in attributes(comparison):
        written = attribute(comparison, f"#stablehlo<comparison_type {kind}>")
        comparison.attributes["compare_type"] = written
