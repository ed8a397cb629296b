"""legalize_reduce_inits: the same bits, and no maximum or minimum from the last finite number."""

from typing import Any

import ml_dtypes
import numpy as np
from composites_testing.passes import program, same_bits, stay

from lowering.stablehlo import Module, legalize_reduce_inits

LAST = {
    "f16": (np.float16, "6.550400e+04", "0xFC00", "0x7C00"),
    "bf16": (ml_dtypes.bfloat16, "3.389530e+38", "0xFF80", "0x7F80"),
    "f32": (np.float32, "3.40282347E+38", "0xFF800000", "0x7F800000"),
    "f64": (np.float64, "1.7976931348623157E+308", "0xFFF0000000000000", "0x7FF0000000000000"),
}


def reduction(operation: str, start: str, element: str, rows: str = "4x5") -> Module:
    x, result = f"tensor<{rows}x{element}>", f"tensor<{rows.partition('x')[0]}x{element}>"
    body = f"""
      %start = stablehlo.constant dense<{start}> : tensor<{element}>
      %r = stablehlo.reduce(%x init: %start) applies stablehlo.{operation}
        across dimensions = [1] : ({x}, tensor<{element}>) -> {result}"""
    return program(body, f"%x: {x}", result)


def test_the_bits_stay() -> None:
    row = [1, np.nan, -np.inf, np.inf, 0]
    x = np.array([[-np.inf] * 5, [np.inf] * 5, [1, -2, 0, -0.0, 3], row])
    for element, (dtype, last, negative, positive) in LAST.items():
        for operation, start, infinity in (
            ("maximum", f"-{last}", negative),
            ("minimum", last, positive),
        ):
            module = reduction(operation, start, element)
            text = same_bits(module, legalize_reduce_inits, x.astype(dtype))
            assert f"stablehlo.constant dense<{infinity}> : tensor<{element}>" in text
            assert infinity not in module.text


def test_what_stays() -> None:
    others = (
        ("maximum", "0xFF800000", "f32", "4x5"),
        ("add", "-3.40282347E+38", "f32", "4x5"),
        ("maximum", "-2147483648", "i32", "4x5"),  # the least
        ("minimum", "255", "ui8", "4x5"),  # the greatest
        ("maximum", "false", "i1", "4x5"),
        ("maximum", "0x7FC00000", "f32", "4x5"),  # NaN
        ("maximum", "-3.40282347E+38", "f32", "?x5"),
    )
    stay(legalize_reduce_inits, [reduction(*other) for other in others])


def test_other_starts() -> None:
    starts: tuple[tuple[str, str, str, Any], ...] = (
        ("maximum", "0.0", "f32", np.float32),
        ("maximum", "3.40282347E+38", "f32", np.float32),  # the wrong end
        ("minimum", "3", "i32", np.int32),
        ("maximum", "-100", "i8", np.int8),
        ("minimum", "7", "ui8", np.uint8),
    )
    for operation, start, element, dtype in starts:
        module = reduction(operation, start, element)
        x = np.arange(20).reshape(4, 5).astype(dtype)
        assert same_bits(module, legalize_reduce_inits, x) != module.text


def test_a_start_that_is_no_constant() -> None:
    body = """
      %r = stablehlo.reduce(%x init: %start) applies stablehlo.maximum
        across dimensions = [1] : (tensor<4x5xf32>, tensor<f32>) -> tensor<4xf32>"""
    module = program(body, "%x: tensor<4x5xf32>, %start: tensor<f32>", "tensor<4xf32>")
    x = np.arange(20, dtype=np.float32).reshape(4, 5)
    for start in (np.float32(7), np.float32(np.inf)):
        assert same_bits(module, legalize_reduce_inits, x, start).count("0xFF800000") == 1
