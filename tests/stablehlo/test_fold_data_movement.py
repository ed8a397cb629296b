"""fold_data_movement: what moves data twice moves it once, and every bit stays."""

import numpy as np
import pytest

from lowering.stablehlo import Module, fold_data_movement, run

# For each rule: operations that make %r of %x : tensor<2x3xf32>, the type of %r, and what is left.
CASES = {
    "broadcasts of broadcasts": (
        """%0 = stablehlo.broadcast_in_dim %x, dims = [0, 2]
          : (tensor<2x3xf32>) -> tensor<2x1x3xf32>
        %r = stablehlo.broadcast_in_dim %0, dims = [1, 2, 3]
          : (tensor<2x1x3xf32>) -> tensor<4x2x5x3xf32>""",
        "4x2x5x3xf32",
        ["broadcast_in_dim %arg0, dims = [1, 3]"],
    ),
    "a broadcast of a broadcast in another order": (
        """%0 = stablehlo.broadcast_in_dim %x, dims = [1, 0]
          : (tensor<2x3xf32>) -> tensor<3x2xf32>
        %r = stablehlo.broadcast_in_dim %0, dims = [0, 1]
          : (tensor<3x2xf32>) -> tensor<3x2xf32>""",
        "3x2xf32",
        ["broadcast_in_dim %arg0, dims = [1, 0]"],
    ),
    "reshapes": (
        """%0 = stablehlo.reshape %x : (tensor<2x3xf32>) -> tensor<6xf32>
        %r = stablehlo.reshape %0 : (tensor<6xf32>) -> tensor<3x2xf32>""",
        "3x2xf32",
        ["reshape %arg0 : (tensor<2x3xf32>) -> tensor<3x2xf32>"],
    ),
    "a reshape that undoes ones": (
        """%0 = stablehlo.broadcast_in_dim %x, dims = [1, 2]
          : (tensor<2x3xf32>) -> tensor<1x2x3xf32>
        %r = stablehlo.reshape %0 : (tensor<1x2x3xf32>) -> tensor<2x3xf32>""",
        "2x3xf32",
        [],
    ),
    "a reshape of what repeats": (
        """%0 = stablehlo.broadcast_in_dim %x, dims = [1, 2]
          : (tensor<2x3xf32>) -> tensor<2x2x3xf32>
        %r = stablehlo.reshape %0 : (tensor<2x2x3xf32>) -> tensor<4x3xf32>""",
        "4x3xf32",
        ["broadcast_in_dim", "reshape"],
    ),
    "a reshape of what is transposed by a broadcast": (
        """%0 = stablehlo.broadcast_in_dim %x, dims = [2, 1]
          : (tensor<2x3xf32>) -> tensor<1x3x2xf32>
        %r = stablehlo.reshape %0 : (tensor<1x3x2xf32>) -> tensor<3x2xf32>""",
        "3x2xf32",
        ["broadcast_in_dim", "reshape"],
    ),
    "transposes": (
        """%0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
        %r = stablehlo.transpose %0, dims = [1, 0] : (tensor<3x2xf32>) -> tensor<2x3xf32>""",
        "2x3xf32",
        [],
    ),
    "transposes of three dimensions": (
        """%0 = stablehlo.reshape %x : (tensor<2x3xf32>) -> tensor<1x2x3xf32>
        %1 = stablehlo.transpose %0, dims = [1, 2, 0] : (tensor<1x2x3xf32>) -> tensor<2x3x1xf32>
        %r = stablehlo.transpose %1, dims = [1, 2, 0] : (tensor<2x3x1xf32>) -> tensor<3x1x2xf32>""",
        "3x1x2xf32",
        ["reshape", "transpose %0, dims = [2, 0, 1]"],
    ),
    "filled constants, and products by one": (
        """%0 = stablehlo.constant dense<1.0> : tensor<f32>
        %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<3x2xf32>
        %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<3x2xf32>) -> tensor<2x3xf32>
        %r = stablehlo.multiply %2, %x : tensor<2x3xf32>""",
        "2x3xf32",
        [],
    ),
    "sums with zero, which change the sign of zero": (
        """%0 = stablehlo.constant dense<0.0> : tensor<f32>
        %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
        %r = stablehlo.add %x, %1 : tensor<2x3xf32>""",
        "2x3xf32",
        ["constant dense<0.000000e+00> : tensor<2x3xf32>", "add %arg0, %cst"],
    ),
    "casts to the same type": (
        "%r = stablehlo.convert %x : (tensor<2x3xf32>) -> tensor<2x3xf32>",
        "2x3xf32",
        [],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_rule(case: str) -> None:
    body, result, left = CASES[case]
    before = Module.parse(
        f"func.func @main(%x: tensor<2x3xf32>) -> tensor<{result}> {{\n"
        f"{body}\nreturn %r : tensor<{result}>\n}}"
    )
    after = fold_data_movement(before)
    after.verify()
    lines = [line.strip() for line in after.text.splitlines() if "stablehlo." in line]
    assert len(lines) == len(left), after.text
    assert all(part in line for part, line in zip(left, lines, strict=True)), after.text
    x = np.array([[0.0, -0.0, np.nan], [np.inf, -1.5, 3e-42]], np.float32)
    one, other = (run(module, x)[0] for module in (before, after))
    assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


def test_dynamic_sizes_stay() -> None:
    module = Module.parse("""
        func.func @main(%x: tensor<?x3xf32>) -> tensor<3x?xf32> {
          %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<?x3xf32>) -> tensor<3x?xf32>
          return %0 : tensor<3x?xf32>
        }""")
    assert fold_data_movement(module).text == module.text
