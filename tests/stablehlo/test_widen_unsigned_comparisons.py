"""widen_unsigned_comparisons: the same truths for the least and greatest numbers."""

from typing import Any

import numpy as np
import pytest
from composites_testing.passes import program, same_bits, stay

from lowering.stablehlo import Module, widen_unsigned_comparisons

WIDER: dict[str, tuple[Any, str]] = {
    "ui8": (np.uint8, "i32"),
    "ui16": (np.uint16, "i32"),
    "ui32": (np.uint32, "i64"),
}


def comparison(direction: str, element: str, type_: str = "UNSIGNED") -> Module:
    x, truth = f"tensor<4x4x{element}>", "tensor<4x4xi1>"
    line = f"%r = stablehlo.compare {direction}, %x, %y, {type_} : ({x}, {x}) -> {truth}"
    return program(line, f"%x: {x}, %y: {x}", truth)


@pytest.mark.parametrize("element", WIDER)
def test_the_result_stays(element: str) -> None:
    dtype, wider = WIDER[element]
    greatest: Any = np.iinfo(dtype).max
    row = np.array([0, 1, greatest // 2 + 1, greatest], dtype)
    for direction in ("EQ", "NE", "LT", "LE", "GT", "GE"):
        module = comparison(direction, element)
        text = same_bits(module, widen_unsigned_comparisons, *np.meshgrid(row, row))
        assert f"(tensor<4x4x{wider}>, tensor<4x4x{wider}>)" in text


def test_others_stay() -> None:
    kinds = {"ui64": "UNSIGNED", "i32": "SIGNED", "f32": "FLOAT"}
    stay(widen_unsigned_comparisons, [comparison("LT", *kind) for kind in kinds.items()])
