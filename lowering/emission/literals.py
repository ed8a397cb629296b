"""Constants of HLO as numpy arrays, for constant folding that keeps every bit."""

import operator
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from lowering.emission import hlo_proto
from lowering.stablehlo.bindings import LARGEST_BOOLEAN_CONSTANT
from lowering.stablehlo.dtypes import numpy_dtype

Values: TypeAlias = np.ndarray[Any, Any]

_TABLES = frozenset({"i1", "i32", "i64", "ui32"})
_NUMBERS = _TABLES | {"f16", "bf16", "f32", "f64"}
_LARGEST_TABLE = 4096

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "EQ": operator.eq, "NE": operator.ne, "GE": operator.ge, "GT": operator.gt, "LE": operator.le,
    "LT": operator.lt,
}  # fmt: skip
_LOGIC = _COMPARISONS | {"and": operator.and_, "or": operator.or_}
_INTEGER = _LOGIC | {"add": operator.add, "subtract": operator.sub, "multiply": operator.mul}
_FLOAT = _INTEGER | {"divide": operator.truediv}
_OPERATIONS = {"b": _LOGIC, "i": _INTEGER, "u": _INTEGER, "f": _FLOAT}
"""The operations that are folded, by kind of numpy dtype. Integers wrap around, as in XLA."""


def values(literal: Any) -> Values | None:
    """The values of a scalar literal or of a small table of integers; None for other literals."""
    shape = tuple(literal.shape.dimensions)
    name = hlo_proto.ELEMENT_TYPE_NAMES.get(literal.shape.element_type)
    if name is None or name not in (_TABLES if shape else _NUMBERS):
        return None
    written, dtype = getattr(literal, hlo_proto.VALUE_FIELDS[name]), numpy_dtype(name)
    if len(written) > _LARGEST_TABLE:
        return None
    flat = np.frombuffer(written, dtype) if isinstance(written, bytes) else np.array(written, dtype)
    return flat.reshape(shape)


def is_number(values: Values, number: int) -> bool:
    """Return whether a value equals `number`, which is 0 or 1. A negative zero does not equal 0."""
    return values.ndim == 0 and bool(values == number) and not np.signbit(values.astype(np.float64))


def fold(operation: str, left: Values, right: Values) -> Values | None:
    """The result of an operation on values of one type; None if the operation is not folded.

    IEEE 754 defines one result for two finite numbers. Floats of 16 bits are not folded.
    """
    compute = _OPERATIONS.get(left.dtype.kind, {}).get(operation)
    if compute is None or left.dtype.itemsize == 2:
        return None
    with np.errstate(all="ignore"):
        return _finite(np.asarray(compute(left, right)))


def convert(values: Values, element_type: int) -> Values | None:
    """Values converted to another type, with one rounding; None if the conversion is not folded."""
    name = hlo_proto.ELEMENT_TYPE_NAMES.get(element_type)
    if name is None or name not in _NUMBERS or values.dtype.itemsize == 2:
        return None
    if name in _TABLES:
        converted = values.astype(numpy_dtype(name))
        exact = values.dtype.kind != "f" and name != "i1" and np.array_equal(converted, values)
        return converted if exact else None
    if values.ndim:
        return None
    wide = values.astype(np.float64)
    if values.dtype.kind != "f" and int(wide) != int(values):  # it would be rounded twice
        return None
    with np.errstate(over="ignore"):
        single = wide.astype(np.float32)
        if name == "bf16" and single != wide:
            return None
        return _finite((single if name == "bf16" else wide).astype(numpy_dtype(name)))


def _finite(values: Values) -> Values | None:
    return values if np.all(np.isfinite(values)) else None


def as_literal(values: Values, shape: Any) -> Any | None:
    """Values as a literal: a scalar if all are equal; None if the table is too large to print.

    Args:
        shape: the shape of the values (protobuf), with the element type.
    """
    if not values.size:
        return None
    if np.any(values != values.flat[0]):
        large = values.dtype == np.bool_ and values.size > LARGEST_BOOLEAN_CONSTANT
        return None if large else hlo_proto.literal(values, shape)
    scalar = hlo_proto.Shape(element_type=shape.element_type, layout=shape.layout)
    scalar.layout.minor_to_major[:] = []
    return hlo_proto.literal(values.ravel()[:1], scalar)
