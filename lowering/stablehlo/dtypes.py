"""Element types of tensors: MLIR name, numpy dtype, size in memory, and conversions without loss.

Element types have the names that MLIR prints, such as `bf16` and `ui8`.
"""

import re
from functools import cache
from typing import Any, Literal

from composites.element_types import BY_NAME, TABLE
from composites.lazy_modules import np

from .errors import SizeError, StableHLOError
from .ir_types import IrType

_FLOATS = {type_.name: type_.format for type_ in TABLE if type_.format is not None}
_INTEGER = re.compile(r"(u?)i(\d+)")

CastKind = Literal["widening", "narrowing", "integer to float", "float to integer", "other"]

_STATIC_TENSOR = re.compile(r"tensor<((?:\d+x)*)([\w<>]+)>")
_STORAGE = re.compile(r"!quant\.\w+<([iu])(\d+)")


def static_tensor(type_: str) -> tuple[tuple[int, ...], Any] | None:
    """Shape and numpy dtype of a tensor type in text form; None if a dimension is dynamic.

    Raises:
        StableHLOError: the type is quantized, or not in the table.
    """
    if "!quant." in type_:
        raise StableHLOError(
            f"{type_} is quantized: composites with such operands can be inspected, decomposed or"
            " turned into custom calls, but functions of arrays cannot take them"
        )
    parts = shape_and_element_type(type_)
    return None if parts is None else (parts[0], numpy_dtype(parts[1]))


def shape_and_element_type(type_: str) -> tuple[tuple[int, ...], str] | None:
    """Shape and element type of a tensor type in text form; None if a dimension is dynamic."""
    match = _STATIC_TENSOR.fullmatch(type_)
    if match is None:
        return None
    sizes, element = match.groups()
    return tuple(int(size) for size in sizes.split("x") if size), element


def element_name(type_: str) -> str:
    """The element type of a tensor type in text form."""
    return re.sub(r"^(?:[\d?]+x)*", "", type_.removeprefix("tensor<").removesuffix(">"))


def numpy_dtype(element_type: str) -> Any:
    """The numpy dtype of an MLIR element type, such as `bf16`.

    Raises:
        StableHLOError: the type is not in the table.
    """
    import ml_dtypes

    if element_type not in BY_NAME:
        raise StableHLOError(
            f"no numpy dtype for element type {element_type}; known: {', '.join(BY_NAME)}"
        )
    name = BY_NAME[element_type].numpy
    return np.dtype(getattr(ml_dtypes, name, name))


def as_f32(number: float) -> Any:
    """The nearest number of f32, as NumPy's scalar."""
    with np.errstate(over="ignore"):
        return np.float32(number)


def byte_size(type_: IrType) -> int:
    """Size of a value in bytes: 0 for a value that is not a tensor. A dynamic dimension counts as
    1.

    Raises:
        SizeError: the type has more bytes than a machine can address.
    """
    if not hasattr(type_, "element_type") or not type_.has_rank:
        return 0
    element = str(type_.element_type)
    if storage := _STORAGE.match(element):  # a quantized type
        element = f"{'ui' if storage[1] == 'u' else 'i'}{storage[2]}"
    if element not in BY_NAME:
        return 0
    count = 1
    for axis in range(type_.rank):
        count *= 1 if type_.is_dynamic_dim(axis) else type_.get_dim_size(axis)
    size = count * int(numpy_dtype(element).itemsize)
    if size > 2**63:
        raise SizeError(f"{type_} is larger than any machine can address")
    return size


def is_float(element_type: str) -> bool:
    """Return whether a type is a float of any size; complex and quantized types are not."""
    return element_type in _FLOATS or element_type == "f8E8M0FNU"


def significand(element_type: str) -> int | None:
    """The bits of a float's significand, with the implicit one; None for other types."""
    format_ = _FLOATS.get(element_type)
    return None if format_ is None else format_.significand


@cache
def holds(wide: str, narrow: str) -> bool:
    """Return whether casting every value of `narrow` to `wide` and back is exact.

    `i1` counts as the integers 0 and 1. A NaN only has to remain a NaN. Complex and quantized
    types, and types that are not in the table, only hold themselves.
    """
    if wide == narrow:
        return True
    integers = _integer(wide), _integer(narrow)
    match integers:
        case ((size, signed), (other_size, other_signed)):
            if signed == other_signed:
                return size > other_size
            return signed and size > other_size
        case (None, (size, signed)) if wide in _FLOATS and _FLOATS[wide].complete:
            magnitude = size - signed
            return magnitude <= _FLOATS[wide].significand and magnitude <= _FLOATS[wide].largest
        case (None, None) if wide in _FLOATS and _FLOATS[wide].complete and narrow in _FLOATS:
            outer, inner = _FLOATS[wide], _FLOATS[narrow]
            return (
                outer.significand >= inner.significand
                and outer.smallest <= inner.smallest
                and outer.largest >= inner.largest
            )
    return False


def cast_kind(source: str, target: str) -> CastKind:
    """The kind of a conversion between two element types.

    Between two floats or two integers (including `i1`), it is widening if the target holds every
    value of the source, and narrowing otherwise. So bf16 to f16 and i32 to ui32 are narrowing.
    """
    floats = source in _FLOATS, target in _FLOATS
    integers = _integer(source) is not None, _integer(target) is not None
    if all(floats) or all(integers):
        return "widening" if holds(target, source) else "narrowing"
    if integers[0] and floats[1]:
        return "integer to float"
    if floats[0] and integers[1]:
        return "float to integer"
    return "other"


def _integer(element_type: str) -> tuple[int, bool] | None:
    """The number of bits of an integer type, and True if it is signed. `i1` is unsigned."""
    match = _INTEGER.fullmatch(element_type)
    if match is None or element_type not in BY_NAME:
        return None
    bits = int(match[2])
    return bits, not match[1] and bits > 1
