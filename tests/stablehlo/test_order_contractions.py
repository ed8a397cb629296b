"""order_contractions: the numbers stay, and dimensions are paired in the order that they have."""

import pytest
from composites_testing.passes import changed, program, same_numbers, stay

from lowering.stablehlo import Module, order_contractions


def product(numbers: str, left: str, right: str, result: str, attributes: str = "") -> Module:
    x, y, r = (f"tensor<{sizes}xf32>" for sizes in (left, right, result))
    line = f"%r = stablehlo.dot_general %x, %y, {numbers} {attributes} : ({x}, {y}) -> {r}"
    return program(line, f"%x: {x}, %y: {y}", r)


@pytest.mark.parametrize(
    ("module", "ordered"),
    [
        (
            product("contracting_dims = [0, 2] x [1, 0]", "2x5x6", "6x2", "5"),
            "contracting_dims = [0, 2] x [0, 1]",
        ),
        (
            product("contracting_dims = [3, 1, 0] x [2, 3, 1]", "2x3x5x4", "7x2x4x3", "5x7"),
            "contracting_dims = [0, 1, 3] x [1, 2, 3]",
        ),
        (  # upsampling: windows of 3x3 around each of 8x8 elements
            product(
                "batching_dims = [2, 0] x [4, 5], contracting_dims = [3, 1] x [1, 2]",
                *("8x3x8x3", "1x3x3x2x8x8", "8x8x1x2"),
            ),
            "batching_dims = [2, 0] x [4, 5], contracting_dims = [1, 3] x [1, 2]",
        ),
    ],
)
def test_the_numbers_stay(module: Module, ordered: str) -> None:
    legal = changed(module, order_contractions)
    assert f"stablehlo.dot_general %arg0, %0, {ordered} : " in legal.text
    same_numbers(module, legal, tolerance=1e-6)


def test_others_stay() -> None:
    in_order = product("contracting_dims = [2, 0] x [1, 0]", "2x5x6", "2x6", "5")
    sharded = product(
        *("contracting_dims = [0, 2] x [1, 0]", "2x5x6", "6x2", "5"),
        attributes='{mhlo.sharding = "{replicated}"}',
    )
    stay(order_contractions, [in_order, sharded])
