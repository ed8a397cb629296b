"""widen_dots: numbers that are no further from the exact ones, and casts that come back."""

import ml_dtypes
import numpy as np
import pytest
from composites_testing.passes import load, program, stay

from lowering.stablehlo import Module, casts, drop_cast_roundtrips, run, widen_dots


def test_a_product_that_is_cast_back_stays_whichever_pass_comes_first() -> None:
    residual = load("residual")
    stay(widen_dots, [residual])
    simplified = drop_cast_roundtrips(widen_dots(residual))
    assert simplified.text == widen_dots(drop_cast_roundtrips(residual)).text
    assert [(cast.from_type, cast.to_type) for cast in casts(simplified).casts] == [("bf16", "f32")]


@pytest.mark.parametrize(("narrow", "dtype"), [("bf16", ml_dtypes.bfloat16), ("f16", np.float16)])
def test_numbers_are_at_least_as_close_to_the_exact_ones(narrow: str, dtype: type) -> None:
    size = 64
    square, wide = f"tensor<{size}x{size}x{narrow}>", f"tensor<{size}x{size}xf32>"
    body = f"""
      %0 = stablehlo.dot %a, %b : ({square}, {square}) -> {square}
      %1 = stablehlo.transpose %0, dims = [1, 0] : ({square}) -> {square}
      %r = stablehlo.convert %1 : ({square}) -> {wide}"""
    module = program(body, f"%a: {square}, %b: {square}", wide)
    # XLA may leave the rounding out by itself; behind a barrier it rounds, as other compilers do.
    # XLA:CPU of jaxlib 0.12 rounds every partial sum of the bf16 product without the barrier.
    barrier = f"%h = stablehlo.optimization_barrier %0 : {square}\n    %1"
    rounded = Module.parse(
        module.text.replace("%1", barrier, 1).replace("transpose %0", "transpose %h")
    )
    random = np.random.default_rng(0)
    a: np.ndarray
    b: np.ndarray
    a, b = (random.standard_normal((size, size)).astype(dtype) for _ in range(2))
    exact = (a.astype(np.float64) @ b.astype(np.float64)).T
    errors = [np.abs(run(m, a, b)[0] - exact).max() for m in (widen_dots(module), module, rounded)]
    assert errors[0] <= min(errors[1:])
    assert errors[0] < 1e-5 < 1e-3 < errors[2]


def test_integers_no_longer_overflow() -> None:
    body = """
      %0 = stablehlo.dot %a, %b : (tensor<4x8xi8>, tensor<8x4xi8>) -> tensor<4x4xi8>
      %r = stablehlo.convert %0 : (tensor<4x4xi8>) -> tensor<4x4xi32>"""
    module = program(body, "%a: tensor<4x8xi8>, %b: tensor<8x4xi8>", "tensor<4x4xi32>")
    a, b = np.full((4, 8), 100, np.int8), np.full((8, 4), 100, np.int8)
    np.testing.assert_array_equal(run(module, a, b)[0], np.full((4, 4), -128))  # 80000 mod 256
    np.testing.assert_array_equal(run(widen_dots(module), a, b)[0], np.full((4, 4), 80000))
