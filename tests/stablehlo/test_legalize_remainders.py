"""legalize_remainders: the bits of the definition, and no operand that is positive."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from composites_testing.passes import program, same_bits, same_values, stay

from lowering.stablehlo import TARGETS, Module, legalize_remainders, run, run_passes
from lowering.stablehlo.pipeline import Pass


def remainder(element: str, sizes: str = "8x8x", attributes: str = "") -> Module:
    x = f"tensor<{sizes}{element}>"
    return program(f"%r = stablehlo.remainder %x, %y {attributes} : {x}", f"%x: {x}, %y: {x}", x)


TYPES: dict[str, Any] = {
    "f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "i32": np.int32,
    "i64": np.int64,
}  # fmt: skip


def test_the_bits_stay() -> None:
    row = np.array([-7.5, -4, -2, -0.3, 1, 2, 3.3, 9])
    for element, dtype in TYPES.items():
        numbers = np.where(np.abs(row) < 1, 5, row) if element.startswith("i") else row
        x, y = np.meshgrid(numbers, numbers)
        same_bits(remainder(element), legalize_remainders, x.astype(dtype), y.astype(dtype))


@pytest.mark.parametrize("passes", [(legalize_remainders,), TARGETS["portable"].passes])
def test_the_least_integers(passes: tuple[Pass, ...]) -> None:
    wrong = []
    for bits in (8, 16, 32, 64):
        dtype = np.dtype(f"int{bits}")
        least, greatest = np.iinfo(dtype).min, np.iinfo(dtype).max
        row = np.array([least, least + 1, greatest, -10, -3, -2, -1, 1, 2, 3, 10], dtype)
        x, y = np.meshgrid(row, row)
        module = remainder(f"i{bits}", "11x11x")
        (want,), (found,) = (run(each, x, y) for each in (module, run_passes(module, [*passes])))
        if found.tobytes() != want.tobytes():
            wrong.append((bits, x[found != want], y[found != want], found[found != want]))
    assert not wrong


def test_numbers_that_are_not_finite() -> None:
    row = np.array([np.nan, np.inf, -np.inf, 0, 1, -1, 3.5, -3.5], np.float32)
    same_values(remainder("f32"), legalize_remainders, *np.meshgrid(row, row))


def test_others_stay() -> None:
    sharded = remainder("f32", attributes='{mhlo.sharding = "{replicated}"}')
    stay(legalize_remainders, [remainder("ui32"), remainder("f32", "?x8x"), sharded])
