"""widen_byte_sums: the bits of sums of bytes, also where they wrap around."""

import numpy as np
import pytest
from composites_testing.passes import program, same_bits, stay

from lowering.stablehlo import Module, widen_byte_sums

WINDOW = (
    "reduce_window",
    "window_dimensions = array<i64: 1, 9>, padding = dense<[[0, 0], [8, 0]]> : tensor<2x2xi64>",
    "4x9",
)
SUM = ("reduce", "dimensions = array<i64: 1>", "4")


def sums(
    form: tuple[str, str, str], element: str, combination: str = "add", attributes: str = ""
) -> Module:
    name, given, sizes = form
    x, y, scalar = (f"tensor<{each}{element}>" for each in ("4x9x", f"{sizes}x", ""))
    body = f"""
      %zero = stablehlo.constant dense<0> : {scalar}
      %r = "stablehlo.{name}"(%x, %zero) <{{{given}}}> ({{
      ^bb0(%a: {scalar}, %b: {scalar}):
        %1 = stablehlo.{combination} %a, %b : {scalar}
        stablehlo.return %1 : {scalar}
      }}) {{{attributes}}} : ({x}, {scalar}) -> {y}"""
    return program(body, f"%x: {x}", y)


@pytest.mark.parametrize("form", [WINDOW, SUM], ids=["window", "sum"])
def test_the_bits_stay(form: tuple[str, str, str]) -> None:
    random = np.random.default_rng(0).integers(0, 256, (4, 9)).astype(np.uint8)
    for element, x in (("ui8", random), ("i8", random.view(np.int8))):
        text = same_bits(sums(form, element), widen_byte_sums, x)
        assert "tensor<4x9xi32>" in text
        assert f"stablehlo.add %arg1, %arg2 : tensor<{element}>" not in text


def test_others_stay() -> None:
    sharded = sums(SUM, "ui8", attributes='mhlo.sharding = "{replicated}"')
    stay(widen_byte_sums, [sums(SUM, "i32"), sums(WINDOW, "ui8", "maximum"), sharded])
