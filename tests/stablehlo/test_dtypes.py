"""dtypes: MLIR element types, numpy dtypes and sizes agree."""

import itertools

import numpy as np
import pytest

from lowering.stablehlo import StableHLOError
from lowering.stablehlo.dtypes import cast_kind, holds, numpy_dtype, static_tensor

STATIC: dict[str, tuple[tuple[int, ...], str]] = {
    "tensor<f32>": ((), "float32"),
    "tensor<2x3xbf16>": ((2, 3), "bfloat16"),
    "tensor<0x1xi1>": ((0, 1), "bool"),
    "tensor<4xui8>": ((4,), "uint8"),
    "tensor<2xcomplex<f64>>": ((2,), "complex128"),
    "tensor<2xf8E4M3FN>": ((2,), "float8_e4m3fn"),
}


def test_static_tensors() -> None:
    found = {text: static_tensor(text) or ((), None) for text in STATIC}
    assert {text: (shape, str(np.dtype(d))) for text, (shape, d) in found.items()} == STATIC
    for text in ("tensor<?xf32>", "tensor<2x?xf32>", "tensor<*xf32>", "f32"):
        assert static_tensor(text) is None


def test_an_unknown_type_lists_what_is_known() -> None:
    with pytest.raises(StableHLOError, match="no numpy dtype for element type i7; known: f64, f32"):
        numpy_dtype("i7")


SMALL = [
    "i1", "i4", "i8", "ui8", "i16", "ui16", "f16", "bf16", "f4E2M1FN", "f8E3M4", "f8E4M3",
    "f8E4M3B11FNUZ", "f8E4M3FN", "f8E4M3FNUZ", "f8E5M2", "f8E5M2FNUZ",
]  # fmt: skip
LARGE = ["i32", "ui32", "i64", "f32", "f64"]


def every_value(element_type: str) -> np.ndarray:
    dtype = numpy_dtype(element_type)
    if element_type == "i1":
        return np.array([False, True])
    if element_type == "i4":
        return np.arange(-8, 8).astype(dtype)
    if element_type == "f4E2M1FN":
        return np.arange(16, dtype=np.uint8).view(dtype)
    return np.arange(2 ** (8 * dtype.itemsize), dtype=f"u{dtype.itemsize}").view(dtype)


def is_kept(narrow: str, wide: str) -> bool:
    """Whether all values of a type come back from another one as they were."""
    values = every_value(narrow)
    through = values.astype(numpy_dtype(wide))
    back = through.astype(values.dtype)
    number = values != values
    same = (back == values) & (through.astype(np.float64) == values.astype(np.float64))
    same &= np.signbit(back.astype(np.float64)) == np.signbit(values.astype(np.float64))
    return bool((same | (number & (back != back))).all())


def test_a_type_holds_what_comes_back_as_it_was() -> None:
    wrong = []
    with np.errstate(all="ignore"):
        for narrow, wide in itertools.product(SMALL, SMALL + LARGE):
            # Of smaller floats, which lack infinities or a zero, nothing is claimed.
            claims = wide in ("f16", "bf16", "f32", "f64") or not wide.startswith("f")
            held = holds(wide, narrow)
            if (held or claims) and is_kept(narrow, wide) != held:
                wrong.append((narrow, wide))
    assert wrong == []


KINDS = {
    ("bf16", "f32"): "widening",
    ("i1", "i8"): "widening",
    ("ui8", "i16"): "widening",
    ("f32", "bf16"): "narrowing",
    ("bf16", "f16"): "narrowing",
    ("i32", "ui32"): "narrowing",
    ("i32", "f32"): "integer to float",
    ("i1", "bf16"): "integer to float",
    ("f32", "i1"): "float to integer",
    ("f32", "complex<f32>"): "other",
    ("f32", "!quant.uniform<i8:f32, 1.0>"): "other",
}


def test_kinds_of_casts() -> None:
    assert {types: cast_kind(*types) for types in KINDS} == KINDS
