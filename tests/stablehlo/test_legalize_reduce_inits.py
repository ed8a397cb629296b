"""legalize_reduce_inits: the same bits, and no maximum or minimum from the last finite number."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from lowering.stablehlo import Module, legalize_reduce_inits, run

LAST = {
    "f16": (np.float16, "6.550400e+04", "0xFC00", "0x7C00"),
    "bf16": (ml_dtypes.bfloat16, "3.389530e+38", "0xFF80", "0x7F80"),
    "f32": (np.float32, "3.40282347E+38", "0xFF800000", "0x7F800000"),
    "f64": (np.float64, "1.7976931348623157E+308", "0xFFF0000000000000", "0x7FF0000000000000"),
}


def reduction(operation: str, start: str, element: str, rows: str = "4x5") -> Module:
    result = rows.partition("x")[0]
    return Module.parse(
        f"""
        func.func @main(%x: tensor<{rows}x{element}>) -> tensor<{result}x{element}> {{
          %start = stablehlo.constant dense<{start}> : tensor<{element}>
          %0 = stablehlo.reduce(%x init: %start) applies stablehlo.{operation}
            across dimensions = [1] : (tensor<{rows}x{element}>, tensor<{element}>)
            -> tensor<{result}x{element}>
          return %0 : tensor<{result}x{element}>
        }}
        """
    )


@pytest.mark.parametrize("element", LAST)
@pytest.mark.parametrize("operation", ["maximum", "minimum"])
def test_the_bits_stay(operation: str, element: str) -> None:
    dtype, last, negative, positive = LAST[element]
    module = reduction(operation, f"-{last}" if operation == "maximum" else last, element)
    legal = legalize_reduce_inits(module)
    legal.verify()
    infinity = negative if operation == "maximum" else positive
    assert f"stablehlo.constant dense<{infinity}> : tensor<{element}>" in legal.text
    assert infinity not in module.text
    x = np.array(
        [[-np.inf] * 5, [np.inf] * 5, [1, -2, 0, -0.0, 3], [1, np.nan, -np.inf, np.inf, 0]]
    ).astype(dtype)
    (want,), (got,) = run(module, x), run(legal, x)
    assert want.tobytes() == got.tobytes()
    assert legalize_reduce_inits(legal).text == legal.text


@pytest.mark.parametrize(
    ("operation", "start", "element", "rows"),
    [
        ("maximum", "0xFF800000", "f32", "4x5"),
        ("add", "-3.40282347E+38", "f32", "4x5"),
        ("maximum", "-2147483648", "i32", "4x5"),
        ("minimum", "255", "ui8", "4x5"),
        ("maximum", "false", "i1", "4x5"),
        ("maximum", "0x7FC00000", "f32", "4x5"),
        ("maximum", "-3.40282347E+38", "f32", "?x5"),
    ],
    ids=["infinity", "sum", "the least", "the greatest", "booleans", "NaN", "dynamic"],
)
def test_what_stays(operation: str, start: str, element: str, rows: str) -> None:
    module = reduction(operation, start, element, rows)
    assert legalize_reduce_inits(module).text == module.text


@pytest.mark.parametrize(
    ("operation", "start", "element", "dtype"),
    [
        ("maximum", "0.0", "f32", np.float32),
        ("maximum", "3.40282347E+38", "f32", np.float32),
        ("minimum", "3", "i32", np.int32),
        ("maximum", "-100", "i8", np.int8),
        ("minimum", "7", "ui8", np.uint8),
    ],
    ids=["zero", "the wrong end", "integers", "bytes", "unsigned"],
)
def test_other_starts(operation: str, start: str, element: str, dtype: Any) -> None:
    module = reduction(operation, start, element)
    legal = legalize_reduce_inits(module)
    legal.verify()
    assert legal.text != module.text
    x = np.arange(20).reshape(4, 5).astype(dtype)
    (want,), (got,) = run(module, x), run(legal, x)
    assert want.tobytes() == got.tobytes()
    assert legalize_reduce_inits(legal).text == legal.text


def test_a_start_that_is_no_constant() -> None:
    module = Module.parse(
        """
        func.func @main(%x: tensor<4x5xf32>, %start: tensor<f32>) -> tensor<4xf32> {
          %0 = stablehlo.reduce(%x init: %start) applies stablehlo.maximum
            across dimensions = [1] : (tensor<4x5xf32>, tensor<f32>) -> tensor<4xf32>
          return %0 : tensor<4xf32>
        }
        """
    )
    x = np.arange(20, dtype=np.float32).reshape(4, 5)
    for start in (np.float32(7), np.float32(np.inf)):
        (want,), (got,) = run(module, x, start), run(legalize_reduce_inits(module), x, start)
        assert want.tobytes() == got.tobytes()
    assert legalize_reduce_inits(module).text.count("0xFF800000") == 1
