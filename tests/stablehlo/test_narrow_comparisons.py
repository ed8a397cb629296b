"""narrow_comparisons: the same truths for numbers next to the constant, and no f64."""

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from composites_testing.passes import stay

from lowering.stablehlo import Module, run
from lowering.stablehlo.passes.comparisons import narrow_comparisons

DIRECTIONS = ("EQ", "NE", "LT", "LE", "GT", "GE")


def comparisons(element: str, *written: str) -> Module:
    """Comparisons of a converted operand `%w` with `%c`, a constant; each as `LT, %w, %c: 0.3`."""
    x, wide, truth = f"tensor<16x{element}>", "tensor<16xf64>", "tensor<16xi1>"
    made = []
    for index, (comparison, _, number) in enumerate(text.partition(": ") for text in written):
        made += [
            f"%n{index} = stablehlo.constant dense<{number}> : tensor<f64>",
            f"%c{index} = stablehlo.broadcast_in_dim %n{index}, dims = []"
            f" : (tensor<f64>) -> {wide}",
            f"%{index} = stablehlo.compare {comparison.replace('%c', f'%c{index}')}"
            f" : ({wide}, {wide}) -> {truth}",
        ]
    lines = "\n".join(made)
    results = ", ".join(f"%{index}" for index in range(len(written)))
    types = ", ".join([truth] * len(written))
    return Module.parse(f"""
        func.func @main(%x: {x}) -> ({types}) {{
          %w = stablehlo.convert %x : ({x}) -> {wide}
          {lines}
          return {results} : {types}
        }}
    """)


def floats(dtype: type) -> np.ndarray:
    near = np.array([0.3, -0.3, 1e-30, 3.4e38, 0.0], np.float32)
    numbers = [*near, *np.nextafter(near, np.float32(9)), *np.nextafter(near, np.float32(-9))]
    return np.array([*numbers[:12], np.nan, np.inf, -np.inf, -0.0], np.float32).astype(dtype)


def integers(dtype: type) -> np.ndarray:
    limits = np.iinfo(dtype)
    row = [limits.min, limits.min + 1, limits.max - 1, limits.max, *range(-6, 6)]
    return np.array(row, dtype)


@pytest.mark.parametrize(
    ("element", "dtype", "values"),
    [
        ("f32", np.float32, floats),
        ("f16", np.float16, floats),
        ("bf16", ml_dtypes.bfloat16, floats),
        ("i8", np.int8, integers),
        ("i64", np.int64, integers),
    ],
)
def test_the_result_stays(element: str, dtype: type, values: Callable[[type], np.ndarray]) -> None:
    numbers = ["0.3", "-0.3", "0.0", "2.0", "-2.5", "1.0e300", "0x7FF8000000000000"]
    if values is floats:
        numbers += ["0x7FF0000000000000", "0xFFF0000000000000"]
    with np.errstate(over="ignore"):
        x = values(dtype)
    written = [
        f"{direction}, {operands}, FLOAT: {number}"
        for direction in DIRECTIONS
        for index, number in enumerate(numbers)
        for operands in [("%w, %c", "%c, %w")[index % 2]]
    ]
    module = comparisons(element, *written)
    narrow = narrow_comparisons(module)
    narrow.verify()
    results = zip(written, run(module, x), run(narrow, x), strict=True)
    wrong = [(text, x[right != ours]) for text, right, ours in results if (right != ours).any()]
    assert not wrong
    # Of integers: with numbers out of reach, and equality with fractions.
    assert narrow.text.count("f64>, tensor") == (0 if values is floats else 2 * 6 + 3 * 2)


def test_others_stay() -> None:
    in_total_order = comparisons("f32", "LT, %w, %c, TOTALORDER: 0.3")
    unsigned = comparisons("ui8", "LT, %w, %c: 0.3")
    wide_comparison = comparisons("f64", "LT, %w, %c: 0.3")
    two_operands = comparisons("f32", "LT, %w, %w: 0.3")
    stay(narrow_comparisons, (in_total_order, unsigned, wide_comparison, two_operands))
