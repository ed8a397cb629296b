"""dtypes: MLIR element types, numpy dtypes and sizes agree."""

import itertools

import numpy as np
import pytest

from lowering.stablehlo import StableHLOError
from lowering.stablehlo.dtypes import holds, numpy_dtype


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
    """Return whether all values of a type survive a cast to another type and back."""
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
