"""Element types of tensors: MLIR's name, numpy's dtype and the size in memory, from one table."""

import re
from typing import Any

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
