"""widen_unsigned_comparisons: the same truths for the least and greatest numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lowering.stablehlo import Module, run, widen_unsigned_comparisons

WIDER: dict[str, tuple[Any, str]] = {
    "ui8": (np.uint8, "i32"),
    "ui16": (np.uint16, "i32"),
    "ui32": (np.uint32, "i64"),
}


def comparison(direction: str, element: str, type_: str = "UNSIGNED") -> Module:
    x = f"tensor<4x4x{element}>"
    return Module.parse(f"""
        func.func @main(%x: {x}, %y: {x}) -> tensor<4x4xi1> {{
          %0 = stablehlo.compare {direction}, %x, %y, {type_} : ({x}, {x}) -> tensor<4x4xi1>
          return %0 : tensor<4x4xi1>
        }}
    """)


@pytest.mark.parametrize("element", WIDER)
@pytest.mark.parametrize("direction", ["EQ", "NE", "LT", "LE", "GT", "GE"])
def test_the_result_stays(direction: str, element: str) -> None:
    module = comparison(direction, element)
    dtype, wider = WIDER[element]
    wide = widen_unsigned_comparisons(module)
    wide.verify()
    assert f"(tensor<4x4x{wider}>, tensor<4x4x{wider}>)" in wide.text
    greatest: Any = np.iinfo(dtype).max
    row = np.array([0, 1, greatest // 2 + 1, greatest], dtype)
    x, y = np.meshgrid(row, row)
    (want,), (found,) = run(module, x, y), run(wide, x, y)
    np.testing.assert_array_equal(found, want)
    assert widen_unsigned_comparisons(wide).text == wide.text


@pytest.mark.parametrize("element", ["ui64", "i32", "f32"])
def test_others_stay(element: str) -> None:
    kind = {"u": "UNSIGNED", "i": "SIGNED", "f": "FLOAT"}[element[0]]
    module = comparison("LT", element, kind)
    assert widen_unsigned_comparisons(module).text == module.text
