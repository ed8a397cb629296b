"""Element types of tensors: MLIR's name, numpy's dtype, the size in memory, and which holds which.

Element types are named as MLIR prints them: `bf16`, `ui8`.
"""

import re
from functools import cache
from typing import Any, Literal

from .bindings import IrType
from .errors import StableHLOError

# MLIR name -> numpy (or ml_dtypes) name. The inverse and the sizes are derived.
_NUMPY_NAMES = {
    "i1": "bool",
    "i4": "int4",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "ui4": "uint4",
    "ui8": "uint8",
    "ui16": "uint16",
    "ui32": "uint32",
    "ui64": "uint64",
    "f4E2M1FN": "float4_e2m1fn",
    "f8E3M4": "float8_e3m4",
    "f8E4M3": "float8_e4m3",
    "f8E4M3B11FNUZ": "float8_e4m3b11fnuz",
    "f8E4M3FN": "float8_e4m3fn",
    "f8E4M3FNUZ": "float8_e4m3fnuz",
    "f8E5M2": "float8_e5m2",
    "f8E5M2FNUZ": "float8_e5m2fnuz",
    "f8E8M0FNU": "float8_e8m0fnu",
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "complex<f32>": "complex64",
    "complex<f64>": "complex128",
}

# Significand bits (with the leading one), and the exponents of the smallest and largest value.
_FLOATS = {
    "f4E2M1FN": (2, -1, 2),
    "f8E3M4": (5, -6, 3),
    "f8E4M3": (4, -9, 7),
    "f8E4M3B11FNUZ": (4, -13, 4),
    "f8E4M3FN": (4, -9, 8),
    "f8E4M3FNUZ": (4, -10, 7),
    "f8E5M2": (3, -16, 15),
    "f8E5M2FNUZ": (3, -17, 15),
    "f16": (11, -24, 15),
    "bf16": (8, -133, 127),
    "f32": (24, -149, 127),
    "f64": (53, -1074, 1023),
}
# Those with both infinities, NaN and both zeros, as whatever is put into them may need.
_COMPLETE_FLOATS = frozenset({"f16", "bf16", "f32", "f64"})
_INTEGER = re.compile(r"(u?)i(\d+)")

CastKind = Literal["widening", "narrowing", "integer to float", "float to integer", "other"]

_STATIC_TENSOR = re.compile(r"tensor<((?:\d+x)*)([\w<>]+)>")


def static_tensor(type_: str) -> tuple[tuple[int, ...], Any] | None:
    """Shape and numpy dtype of a tensor type's text; None when a dimension is dynamic."""
    found = _STATIC_TENSOR.fullmatch(type_)
    if found is None:
        return None
    sizes, element = found.groups()
    return tuple(int(size) for size in sizes.split("x") if size), numpy_dtype(element)


def numpy_dtype(element_type: str) -> Any:
    """The numpy dtype of an MLIR element type, such as `bf16`.

    Raises:
      StableHLOError: for a type that the table does not list.
    """
    import ml_dtypes
    import numpy as np

    name = _NUMPY_NAMES.get(element_type)
    if name is None:
        raise StableHLOError(
            f"no numpy dtype for element type {element_type}; known: {', '.join(_NUMPY_NAMES)}"
        )
    return np.dtype(getattr(ml_dtypes, name, name))


def byte_size(type_: IrType) -> int:
    """Bytes of a value; a dynamic dimension counts as 1, and what is no tensor as 0."""
    if not hasattr(type_, "element_type") or not type_.has_rank:
        return 0
    element = str(type_.element_type)
    if element not in _NUMPY_NAMES:
        return 0
    count = 1
    for axis in range(type_.rank):
        count *= 1 if type_.is_dynamic_dim(axis) else type_.get_dim_size(axis)
    return count * int(numpy_dtype(element).itemsize)


@cache
def holds(wide: str, narrow: str) -> bool:
    """Whether each value of one type is a value of the other: casting there and back is exact.

    `i1` counts as the integers 0 and 1. Of NaN only that it is one is asked. Complex and quantised
    types, and types that the tables do not list, hold themselves alone.
    """
    if wide == narrow:
        return True
    integers = _integer(wide), _integer(narrow)
    match integers:
        case ((size, signed), (other_size, other_signed)):
            if signed == other_signed:
                return size > other_size
            return signed and size > other_size
        case (None, (size, signed)) if wide in _COMPLETE_FLOATS:
            significand, _, largest = _FLOATS[wide]
            magnitude = size - signed
            return magnitude <= significand and magnitude <= largest
        case (None, None) if wide in _COMPLETE_FLOATS and narrow in _FLOATS:
            one, other = _FLOATS[wide], _FLOATS[narrow]
            return one[0] >= other[0] and one[1] <= other[1] and one[2] >= other[2]
    return False


def cast_kind(source: str, target: str) -> CastKind:
    """What a conversion between two element types does.

    Of two floats, or two integers (`i1` among them), it is widening when the target holds every
    value of the source, else narrowing: bf16 to f16, and i32 to ui32, are narrowing.
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
    """Bits of an integer type, and whether it is signed; `i1` has no sign."""
    found = _INTEGER.fullmatch(element_type)
    if found is None or element_type not in _NUMPY_NAMES:
        return None
    bits = int(found[2])
    return bits, not found[1] and bits > 1
