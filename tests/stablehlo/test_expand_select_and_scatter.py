"""expand_select_and_scatter: the bits of the definition, for windows of all kinds."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from composites_testing.passes import changed, stay

from lowering.stablehlo import (
    Module,
    UnsupportedOperationError,
    compile_module,
    expand_select_and_scatter,
)

Padding = tuple[tuple[int, int], ...]
# Shape, window, strides, padding.
WINDOWS: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], Padding]] = {
    "2x2": ((1, 2, 7, 9), (1, 1, 2, 2), (1, 1, 2, 2), ((0, 0),) * 4),
    "stem": ((2, 3, 8, 8), (1, 1, 3, 3), (1, 1, 2, 2), ((0, 0), (0, 0), (1, 1), (1, 1))),
    "overlapping": ((2, 10), (1, 3), (1, 1), ((0, 0), (2, 2))),
    "uneven": ((1, 1, 9, 9), (1, 1, 3, 2), (1, 1, 1, 1), ((0, 0), (0, 0), (1, 0), (0, 1))),
    "gaps": ((1, 1, 5, 5), (1, 1, 2, 2), (1, 1, 3, 3), ((0, 0),) * 4),
    "outside": ((1, 4), (1, 2), (1, 2), ((0, 0), (2, 2))),
    "volume": ((1, 5, 5, 5), (1, 3, 3, 3), (1, 2, 2, 2), ((0, 0), (1, 1), (1, 1), (1, 1))),
}


def program(
    shape: tuple[int, ...],
    window: tuple[int, ...],
    strides: tuple[int, ...],
    padding: Padding,
    *,
    element: str = "f32",
    select: str = "compare GE, %a, %b",
    scatter: str = "add",
) -> tuple[Module, tuple[int, ...]]:
    """A module, and the shape of the source."""
    counts = tuple(
        (size + low + high - extent) // stride + 1
        for size, extent, stride, (low, high) in zip(shape, window, strides, padding, strict=True)
    )
    full, source = (f"tensor<{'x'.join(map(str, s))}x{element}>" for s in (shape, counts))
    scalar = f"tensor<{element}>"
    return Module.parse(f"""
        func.func @main(%x: {full}, %source: {source}) -> {full} {{
          %init = stablehlo.constant dense<0.0> : {scalar}
          %0 = "stablehlo.select_and_scatter"(%x, %source, %init) <{{
            window_dimensions = array<i64: {", ".join(map(str, window))}>,
            window_strides = array<i64: {", ".join(map(str, strides))}>,
            padding = dense<{[list(pair) for pair in padding]}> : tensor<{len(shape)}x2xi64>}}> ({{
          ^bb0(%a: {scalar}, %b: {scalar}):
            %1 = stablehlo.{select} : ({scalar}, {scalar}) -> tensor<i1>
            stablehlo.return %1 : tensor<i1>
          }}, {{
          ^bb0(%a: {scalar}, %b: {scalar}):
            %1 = stablehlo.{scatter} %a, %b : {scalar}
            stablehlo.return %1 : {scalar}
          }}) : ({full}, {source}, {scalar}) -> {full}
          return %0 : {full}
        }}
    """), counts


def defined(x: Any, source: Any, window: Any, strides: Any, padding: Padding) -> Any:
    """The operation as StableHLO defines it, element by element."""
    found = np.zeros_like(x)
    for place in np.ndindex(*source.shape):
        selected = None
        for offset in np.ndindex(*window):
            at = tuple(
                p * s + o - low
                for p, s, o, (low, _) in zip(place, strides, offset, padding, strict=True)
            )
            if any(not 0 <= i < size for i, size in zip(at, x.shape, strict=True)):
                continue
            if selected is None or not x[selected] >= x[at]:
                selected = at
        if selected is not None:
            found[selected] += source[place]
    return found


def numbers(shape: tuple[int, ...], kind: str) -> np.ndarray:
    random = np.random.default_rng(0)
    x = random.standard_normal(shape).astype(np.float32)
    if kind == "equal":
        return np.round(x)
    if kind == "not finite":
        for value, share in ((np.nan, 0.2), (-np.inf, 0.1), (np.inf, 0.1)):
            x[random.random(shape) < share] = value
    return x


KINDS = ("different", "equal", "not finite")


@pytest.mark.parametrize("name", WINDOWS)
def test_the_bits_are_those_of_the_definition(name: str) -> None:
    module, counts = program(*WINDOWS[name])
    shape, window, strides, padding = WINDOWS[name]
    expanded = changed(module, expand_select_and_scatter)
    assert "stablehlo.select_and_scatter" not in expanded.text
    compiled, source = compile_module(expanded), numbers(counts, "different")
    for kind in KINDS:
        x = numbers(shape, kind)
        (found,) = compiled(x, source)
        assert found.tobytes() == defined(x, source, window, strides, padding).tobytes(), kind


def test_the_bits_are_those_of_xla() -> None:
    module, counts = program(*WINDOWS["stem"], element="bf16")
    before, after = map(compile_module, (module, expand_select_and_scatter(module)))
    source = numbers(counts, "different").astype(ml_dtypes.bfloat16)
    for kind in KINDS:
        x = numbers(WINDOWS["stem"][0], kind).astype(ml_dtypes.bfloat16)
        assert before(x, source)[0].tobytes() == after(x, source)[0].tobytes(), kind


def test_others_stay() -> None:
    window = WINDOWS["2x2"]
    other_order = program(*window, select="compare GE, %b, %a")[0]
    stay(expand_select_and_scatter, [other_order, program(*window, scatter="maximum")[0]])


def test_a_dynamic_shape_is_refused() -> None:
    module, _ = program(*WINDOWS["outside"])
    dynamic = Module.parse(module.text.replace("tensor<1x4xf32>", "tensor<?x4xf32>"))
    with pytest.raises(UnsupportedOperationError, match=r"tensor<\?x4xf32>: refine its shape"):
        expand_select_and_scatter(dynamic)
