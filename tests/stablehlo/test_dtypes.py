"""dtypes: MLIR element types, numpy dtypes and sizes agree."""

import numpy as np
import pytest

from lowering.stablehlo import StableHLOError
from lowering.stablehlo.dtypes import numpy_dtype, static_tensor


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
    with pytest.raises(StableHLOError, match="no numpy dtype for element type i7; known: i1, i4"):
        numpy_dtype("i7")
