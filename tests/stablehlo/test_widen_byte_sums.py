"""widen_byte_sums: the bits of sums of bytes, also where they wrap around."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lowering.stablehlo import Module, run, widen_byte_sums

WINDOW = (
    "reduce_window",
    "window_dimensions = array<i64: 1, 9>, padding = dense<[[0, 0], [8, 0]]> : tensor<2x2xi64>",
    "4x9",
)
SUM = ("reduce", "dimensions = array<i64: 1>", "4")


def sums(
    form: tuple[str, str, str],
    element: str,
    combination: str = "add",
    attributes: str = "",
) -> Module:
    name, given, sizes = form
    x, y, scalar = (f"tensor<{each}{element}>" for each in ("4x9x", f"{sizes}x", ""))
    return Module.parse(f"""
        func.func @main(%x: {x}) -> {y} {{
          %zero = stablehlo.constant dense<0> : {scalar}
          %0 = "stablehlo.{name}"(%x, %zero) <{{{given}}}> ({{
          ^bb0(%a: {scalar}, %b: {scalar}):
            %1 = stablehlo.{combination} %a, %b : {scalar}
            stablehlo.return %1 : {scalar}
          }}) {{{attributes}}} : ({x}, {scalar}) -> {y}
          return %0 : {y}
        }}
    """)


@pytest.mark.parametrize(("element", "dtype"), [("ui8", np.uint8), ("i8", np.int8)])
@pytest.mark.parametrize("form", [WINDOW, SUM], ids=["window", "sum"])
def test_the_bits_stay(form: tuple[str, str, str], element: str, dtype: Any) -> None:
    module = sums(form, element)
    wide = widen_byte_sums(module)
    wide.verify()
    assert "tensor<4x9xi32>" in wide.text
    assert f"stablehlo.add %arg1, %arg2 : tensor<{element}>" not in wide.text
    x = np.random.default_rng(0).integers(0, 256, (4, 9)).astype(np.uint8).view(dtype)
    (want,), (found,) = run(module, x), run(wide, x)
    assert found.tobytes() == want.tobytes()
    assert widen_byte_sums(wide).text == wide.text


@pytest.mark.parametrize(
    "module",
    [
        sums(SUM, "i32"),
        sums(WINDOW, "ui8", "maximum"),
        sums(SUM, "ui8", attributes='mhlo.sharding = "{replicated}"'),
    ],
    ids=["wide", "no sum", "sharded"],
)
def test_others_stay(module: Module) -> None:
    assert widen_byte_sums(module).text == module.text
