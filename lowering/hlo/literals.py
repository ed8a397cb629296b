"""Scalar constants of HLO as Python numbers, for the folds that leave every bit alone."""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from lowering.emission import hlo_proto
from lowering.emission.hlo_proto import PRIMITIVE_TYPES
from lowering.stablehlo.bindings import LARGEST_BOOLEAN_CONSTANT
from lowering.stablehlo.dtypes import numpy_dtype

_BF16, _F16 = PRIMITIVE_TYPES["bf16"], PRIMITIVE_TYPES["f16"]

# element type -> the field of a literal that holds its values
_NUMBERS = {
    PRIMITIVE_TYPES[name]: hlo_proto.VALUE_FIELDS[name]
    for name in ("i1", "i32", "i64", "f32", "f64")
}
_INTEGER_BITS = {PRIMITIVE_TYPES["i32"]: 32, PRIMITIVE_TYPES["i64"]: 64}
_FLOAT_CODES = {PRIMITIVE_TYPES["f32"]: "<f", PRIMITIVE_TYPES["f64"]: "<d", _F16: "<e"}


def number(literal: Any) -> bool | int | float | None:
    """The value of a scalar literal; None for the types that no fold is made of."""
    field = _NUMBERS.get(literal.shape.element_type)
    values: list[Any] = [] if field is None else list(getattr(literal, field))
    return values[0] if len(values) == 1 else None


def is_number(literal: Any, value: int) -> bool:
    """Whether a scalar literal is this zero or one, and no negative zero."""
    if literal.shape.element_type == _BF16:
        return bool(literal.bf16s == struct.pack("<f", value)[2:])
    if literal.shape.element_type == _F16:
        return bool(literal.f16s == struct.pack("<e", value))
    found = number(literal)
    return found is not None and found == value and math.copysign(1, found) > 0


_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
}
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "EQ": operator.eq,
    "NE": operator.ne,
    "GE": operator.ge,
    "GT": operator.gt,
    "LE": operator.le,
    "LT": operator.lt,
}


def fold(operation: str, left: Any, right: Any) -> Any | None:
    """The value of an operation on two scalar literals of a type; None where it stays to be done.

    Python computes in double precision. Rounding a sum, difference, product or quotient of two
    f32 from there to f32 gives what computing in f32 gives.
    """
    numbers = number(left), number(right)
    type_ = left.shape.element_type
    folded = hlo_proto.Literal(shape=left.shape)
    if None in numbers or type_ == PRIMITIVE_TYPES["i1"]:
        return None
    if operation in _COMPARISONS:
        folded.shape.element_type = PRIMITIVE_TYPES["i1"]
        folded.preds.append(_COMPARISONS[operation](*numbers))
        return folded
    try:
        value = _ARITHMETIC[operation](*numbers)
    except ArithmeticError:
        return None
    if type_ in _INTEGER_BITS:
        limit = 2 ** (_INTEGER_BITS[type_] - 1)
        if operation == "divide" or not -limit <= value < limit:
            return None
        getattr(folded, _NUMBERS[type_]).append(value)
        return folded
    return folded if math.isfinite(value) and _write_float(folded, value) else None


def convert_literal(literal: Any, element_type: int) -> Any | None:
    """The literal in another type, rounded to nearest; None where that is not known here."""
    value = number(literal)
    if value is None:
        return None
    converted = hlo_proto.Literal()
    converted.shape.CopyFrom(literal.shape)
    converted.shape.element_type = element_type
    if element_type in _INTEGER_BITS:
        limit = 2 ** (_INTEGER_BITS[element_type] - 1)
        if isinstance(value, float) or not -limit <= value < limit:
            return None
        getattr(converted, _NUMBERS[element_type]).append(int(value))
        return converted
    # All ways lead through a double, so that there is one rounding: larger integers have two.
    if (abs(value) > 2**53 and not isinstance(value, float)) or not math.isfinite(value):
        return None
    return converted if _write_float(converted, float(value)) else None


def _write_float(literal: Any, value: float) -> bool:
    if literal.shape.element_type == _BF16:
        return _write_bf16(literal, value)
    code = _FLOAT_CODES.get(literal.shape.element_type)
    if code is None:
        return False
    try:
        packed = struct.pack(code, value)
    except OverflowError:
        return False
    if literal.shape.element_type == _F16:
        literal.f16s = packed
    else:
        field = getattr(literal, _NUMBERS[literal.shape.element_type])
        field.append(struct.unpack(code, packed)[0])
    return True


def _write_bf16(literal: Any, value: float) -> bool:
    try:
        packed = struct.pack("<f", value)
    except OverflowError:
        return False
    (bits,) = struct.unpack("<I", packed)
    if struct.unpack("<f", packed)[0] != value:
        return False  # rounded twice
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    literal.bf16s = struct.pack("<H", rounded)
    return bool(rounded & 0x7F80 != 0x7F80)


# ---- small tables of integers and truth values, such as positions in a sequence ----

_TABLES = {
    PRIMITIVE_TYPES[name]: (hlo_proto.VALUE_FIELDS[name], numpy_dtype(name).type)
    for name in ("i1", "i32", "i64", "ui32")
}
_LARGEST_TABLE = 4096
_TABLE_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = _COMPARISONS | {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
}


def table(literal: Any) -> np.ndarray[Any, Any] | None:
    """The values of a literal; None for other types and large ones."""
    field, dtype = _TABLES.get(literal.shape.element_type, ("", np.bool_))
    if not field or len(getattr(literal, field)) > _LARGEST_TABLE:
        return None
    return np.array(getattr(literal, field), dtype).reshape(tuple(literal.shape.dimensions))


def fold_tables(operation: str, left: Any, right: Any) -> np.ndarray[Any, Any] | None:
    """An operation on tables or numbers; None where it stays to be done."""
    fold = _TABLE_OPERATIONS.get(operation)
    return None if fold is None else np.asarray(fold(left, right))


def convert_table(values: np.ndarray[Any, Any], element_type: int) -> np.ndarray[Any, Any] | None:
    """A table in another type of integers that can hold it."""
    _, dtype = _TABLES.get(element_type, ("", None))
    if dtype is None or dtype is np.bool_:
        return None
    converted: np.ndarray[Any, Any] = values.astype(dtype)
    return converted if np.array_equal(converted, values) else None


def table_literal(values: np.ndarray[Any, Any], shape: Any) -> Any | None:
    """Values as a literal of a shape; one value alone where all are the same."""
    _, dtype = _TABLES.get(shape.element_type, ("", None))
    if dtype is None or values.dtype != dtype or not values.size:
        return None
    if dtype is np.bool_ and values.size > LARGEST_BOOLEAN_CONSTANT:
        return None
    if np.any(values != values.flat[0]):
        return hlo_proto.literal(values, shape)
    scalar = hlo_proto.Shape(element_type=shape.element_type, layout=shape.layout)
    scalar.layout.minor_to_major[:] = []
    return hlo_proto.literal(values.ravel()[:1], scalar)
