"""dtypes: MLIR element types, numpy dtypes and sizes agree."""

import itertools

import numpy as np
import pytest

from lowering.stablehlo import StableHLOError
from lowering.stablehlo.dtypes import cast_kind, holds, numpy_dtype, static_tensor


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tensor<f32>", ((), "float32")),
        ("tensor<2x3xbf16>", ((2, 3), "bfloat16")),
        ("tensor<0x1xi1>", ((0, 1), "bool")),
        ("tensor<4xui8>", ((4,), "uint8")),
        ("tensor<2xcomplex<f64>>", ((2,), "complex128")),
        ("tensor<2xf8E4M3FN>", ((2,), "float8_e4m3fn")),
    ],
)
def test_static_tensors(text: str, expected: tuple[tuple[int, ...], str]) -> None:
    shape, dtype = static_tensor(text) or ((), None)
    assert (shape, str(np.dtype(dtype))) == expected


@pytest.mark.parametrize("text", ["tensor<?xf32>", "tensor<2x?xf32>", "tensor<*xf32>", "f32"])
def test_what_is_not_static(text: str) -> None:
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


@pytest.mark.parametrize("narrow", SMALL)
@pytest.mark.parametrize("wide", SMALL + LARGE)
def test_a_type_holds_what_comes_back_as_it_was(narrow: str, wide: str) -> None:
    values = every_value(narrow)
    with np.errstate(all="ignore"):
        through = values.astype(numpy_dtype(wide))
        back = through.astype(values.dtype)
        number = values != values
        same = (back == values) & (through.astype(np.float64) == values.astype(np.float64))
        same &= np.signbit(back.astype(np.float64)) == np.signbit(values.astype(np.float64))
        kept = bool((same | (number & (back != back))).all())
    if holds(wide, narrow):
        assert kept
    elif wide in ("f16", "bf16", "f32", "f64") or not wide.startswith("f"):
        assert not kept  # of smaller floats, which lack infinities or a zero, nothing is claimed


@pytest.mark.parametrize(
    ("source", "target", "kind"),
    [
        ("bf16", "f32", "widening"),
        ("i1", "i8", "widening"),
        ("ui8", "i16", "widening"),
        ("f32", "bf16", "narrowing"),
        ("bf16", "f16", "narrowing"),
        ("i32", "ui32", "narrowing"),
        ("i32", "f32", "integer to float"),
        ("i1", "bf16", "integer to float"),
        ("f32", "i1", "float to integer"),
        ("f32", "complex<f32>", "other"),
        ("f32", "!quant.uniform<i8:f32, 1.0>", "other"),
    ],
)
def test_kinds_of_casts(source: str, target: str, kind: str) -> None:
    assert cast_kind(source, target) == kind


def test_holding_is_transitive() -> None:
    known = SMALL + LARGE
    for a, b, c in itertools.product(known, repeat=3):
        assert holds(a, c) or not (holds(a, b) and holds(b, c))
