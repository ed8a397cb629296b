"""Programs whose sizes vary: what recordings at several sizes become, and its numbers at others."""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from lowering.stablehlo import (
    DynamicSizeError,
    Module,
    Recording,
    composite_count,
    generalize,
    legalize_chlo,
    program_difference,
    refine,
)
from lowering.stablehlo.dynamic_sizes.expressions import Values, find_sum, text

BATCH, SEQ = (5, 3, 5, 6), (11, 11, 3, 14)

Program = Callable[[int, int], str]
"""A program at a size of batch and one of seq."""


# ---- expressions ----


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda b, s: 4, "4"),
        (lambda b, s: 0, "0"),
        (lambda b, s: b, "b"),
        (lambda b, s: 2 * b * s, "2*b*s"),
        (lambda b, s: s * s, "s*s"),
        (lambda b, s: b * s * s, "b*s*s"),
        (lambda b, s: s + 1, "s + 1"),
        (lambda b, s: 3 * s - 2, "3*s - 2"),
        (lambda b, s: b + s, "b + s"),
        (lambda b, s: b * s + s, "s + b*s"),
        (lambda b, s: 1 - b, "-1*b + 1"),
        (lambda b, s: b + s + 1, "b + s + 1"),
        (lambda b, s: s // 2, None),
        (lambda b, s: b**4, None),
    ],
)
def test_the_expression_of_a_place(function: Any, expected: str | None) -> None:
    found = find_sum(tuple(map(function, BATCH, SEQ)), [BATCH, SEQ])
    if expected == "4" or found is None or expected is None:
        assert (None if found is None else text(found, ["b", "s"])) == expected
        return
    assert text(found, ["b", "s"]) == expected
    # It also holds at sizes that nobody recorded.
    for b, s in ((2, 9), (64, 128)):
        columns: list[Values] = [(b, b), (s, s)]
        total = sum(
            term.factor * math.prod(columns[number][0] for number in term.sizes) for term in found
        )
        assert total == function(b, s)


# ---- programs ----


def main(b: int, s: int, body: str, result: str) -> str:
    """A program of x: f32[b,s,4], i: i64[b,s] and w: f32[4,6]."""
    return f"""
func.func @main(%x: tensor<{b}x{s}x4xf32>, %i: tensor<{b}x{s}xi64>, %w: tensor<4x6xf32>)
    -> tensor<{result}> {{
{body}
  return %r : tensor<{result}>
}}
"""


def reshape(b: int, s: int) -> str:
    x = f"tensor<{b}x{s}x4xf32>"
    body = f"""  %0 = stablehlo.reshape %x : ({x}) -> tensor<{b * s}x4xf32>
  %1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0]
    : (tensor<{b * s}x4xf32>, tensor<4x6xf32>) -> tensor<{b * s}x6xf32>
  %r = stablehlo.reshape %1 : (tensor<{b * s}x6xf32>) -> tensor<{b}x{s * 2}x3xf32>"""
    return main(b, s, body, f"{b}x{s * 2}x3xf32")


def broadcast(b: int, s: int) -> str:
    body = f"""  %half = stablehlo.constant dense<5.000000e-01> : tensor<{b}x{s}x4xf32>
  %0 = stablehlo.slice %x [0:{b}, 0:1, 0:4] : (tensor<{b}x{s}x4xf32>) -> tensor<{b}x1x4xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2]
    : (tensor<{b}x1x4xf32>) -> tensor<{b}x{s}x4xf32>
  %r = stablehlo.multiply %1, %half : tensor<{b}x{s}x4xf32>"""
    return main(b, s, body, f"{b}x{s}x4xf32")


def slices(b: int, s: int) -> str:
    x, tail = f"tensor<{b}x{s}x4xf32>", f"tensor<{b}x{s - 1}x2xf32>"
    body = f"""  %0 = stablehlo.slice %x [0:{b}, 1:{s}, 0:4:2] : ({x}) -> {tail}
  %1 = stablehlo.slice %x [0:{b}, 0:{s - 1}, 1:4:2] : ({x}) -> {tail}
  %2 = stablehlo.subtract %0, %1 : {tail}
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %3 = stablehlo.pad %2, %zero, low = [0, 1, 0], high = [{b}, 0, 0], interior = [0, 0, 0]
    : ({tail}, tensor<f32>) -> tensor<{2 * b}x{s}x2xf32>
  %r = stablehlo.concatenate %3, %3, dim = 1
    : (tensor<{2 * b}x{s}x2xf32>, tensor<{2 * b}x{s}x2xf32>) -> tensor<{2 * b}x{2 * s}x2xf32>"""
    return main(b, s, body, f"{2 * b}x{2 * s}x2xf32")


def starts(b: int, s: int) -> str:
    """Starts past the end are moved back."""
    body = f"""  %far = stablehlo.constant dense<1000> : tensor<i64>
  %none = stablehlo.constant dense<0> : tensor<i64>
  %one = stablehlo.constant dense<1> : tensor<i64>
  %r = stablehlo.dynamic_slice %x, %none, %far, %one, sizes = [{b}, {s - 1}, 2]
    : (tensor<{b}x{s}x4xf32>, tensor<i64>, tensor<i64>, tensor<i64>)
    -> tensor<{b}x{s - 1}x2xf32>"""
    return main(b, s, body, f"{b}x{s - 1}x2xf32")


def gather(b: int, s: int) -> str:
    body = f"""  %c = stablehlo.constant dense<[[2], [0]]> : tensor<2x1xi64>
  %r = "stablehlo.gather"(%x, %c) <{{
    dimension_numbers = #stablehlo.gather<offset_dims = [0, 1], collapsed_slice_dims = [2],
      start_index_map = [2], index_vector_dim = 1>,
    slice_sizes = array<i64: {b}, {s}, 1>}}>
    : (tensor<{b}x{s}x4xf32>, tensor<2x1xi64>) -> tensor<{b}x{s}x2xf32>"""
    return main(b, s, body, f"{b}x{s}x2xf32")


def running(low: int, high: int) -> Program:
    def program(b: int, s: int) -> str:
        body = f"""  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %r = "stablehlo.reduce_window"(%x, %zero) <{{
    padding = dense<[[0, 0], [{low * (s - 1)}, {high * (s - 1)}], [0, 0]]> : tensor<3x2xi64>,
    window_dimensions = array<i64: 1, {s}, 1>}}> ({{
  ^bb0(%a: tensor<f32>, %c: tensor<f32>):
    %sum = stablehlo.add %a, %c : tensor<f32>
    stablehlo.return %sum : tensor<f32>
  }}) : (tensor<{b}x{s}x4xf32>, tensor<f32>) -> tensor<{b}x{s}x4xf32>"""
        return main(b, s, body, f"{b}x{s}x4xf32")

    return program


def strided(b: int, s: int) -> str:
    """The size of a strided window is read from its result."""
    x, pooled, half = f"tensor<{b}x{s}x4xf32>", f"{b}x{s // 2}x4xf32", s // 2
    body = f"""  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%x, %low) <{{window_dimensions = array<i64: 1, 2, 1>,
    window_strides = array<i64: 1, 2, 1>}}> ({{
  ^bb0(%a: tensor<f32>, %c: tensor<f32>):
    %max = stablehlo.maximum %a, %c : tensor<f32>
    stablehlo.return %max : tensor<f32>
  }}) : ({x}, tensor<f32>) -> tensor<{pooled}>
  %1 = stablehlo.reshape %0 : (tensor<{pooled}>) -> tensor<{b * half}x4xf32>
  %2 = stablehlo.constant dense<2.0> : tensor<{b * half}x4xf32>
  %r = stablehlo.add %1, %2 : tensor<{b * half}x4xf32>"""
    return main(b, s, body, f"{b * half}x4xf32")


def numbers(b: int, s: int) -> str:
    """A mean, the root of a size, positions and a list of sizes."""
    x = f"tensor<{b}x{s}x4xf32>"
    body = f"""  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %share = stablehlo.constant dense<{float32(1 / (b * s))}> : tensor<4xf32>
  %root = stablehlo.constant dense<{float32(1 / s**0.5)}> : tensor<{x[7:-1]}>
  %rows = stablehlo.constant dense<{[2 * n + b for n in range(s)]}> : tensor<{s}xi64>
  %sizes = stablehlo.constant dense<[{s}, {b}, 7]> : tensor<3xi64>
  %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0, 1]
    : ({x}, tensor<f32>) -> tensor<4xf32>
  %1 = stablehlo.multiply %0, %share : tensor<4xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [2] : (tensor<4xf32>) -> {x}
  %3 = stablehlo.multiply %x, %root : {x}
  %4 = stablehlo.add %2, %3 : {x}
  %5 = stablehlo.slice %sizes [1:2] : (tensor<3xi64>) -> tensor<1xi64>
  %6 = stablehlo.reshape %5 : (tensor<1xi64>) -> tensor<i64>
  %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<i64>) -> tensor<{s}xi64>
  %8 = stablehlo.add %rows, %7 : tensor<{s}xi64>
  %9 = stablehlo.iota dim = 0 : tensor<{s}xi64>
  %10 = stablehlo.add %8, %9 : tensor<{s}xi64>
  %11 = stablehlo.convert %10 : (tensor<{s}xi64>) -> tensor<{s}xf32>
  %12 = stablehlo.broadcast_in_dim %11, dims = [1] : (tensor<{s}xf32>) -> {x}
  %r = stablehlo.add %4, %12 : {x}"""
    return main(b, s, body, x[7:-1])


def float32(value: float) -> str:
    import numpy as np

    return f"{float(np.float32(value)):.12e}"


def loop(b: int, s: int) -> str:
    x = f"tensor<{b}x{s}x4xf32>"
    body = f"""  %none = stablehlo.constant dense<0> : tensor<i64>
  %three = stablehlo.constant dense<3> : tensor<i64>
  %one = stablehlo.constant dense<1> : tensor<i64>
  %step = stablehlo.constant dense<1.5> : {x}
  %0, %r = stablehlo.while(%n = %none, %y = %x) : tensor<i64>, {x}
  cond {{
    %go = stablehlo.compare LT, %n, %three : (tensor<i64>, tensor<i64>) -> tensor<i1>
    stablehlo.return %go : tensor<i1>
  }} do {{
    %next = stablehlo.add %n, %one : tensor<i64>
    %z = stablehlo.multiply %y, %step : {x}
    %flat = stablehlo.reshape %z : ({x}) -> tensor<{b * s * 4}xf32>
    %back = stablehlo.reshape %flat : (tensor<{b * s * 4}xf32>) -> {x}
    stablehlo.return %next, %back : tensor<i64>, {x}
  }}"""
    return main(b, s, body, x[7:-1])


def composites(b: int, s: int) -> str:
    """One decomposition that two composites share, with another one in it, and an integer operand
    that is a constant."""
    x, flat = f"tensor<{b}x{s}x4xf32>", f"tensor<{b * s}x4xf32>"
    body = f"""  %five = stablehlo.constant dense<5> : tensor<i64>
  %0 = stablehlo.composite "acme.scale" %five, %x {{decomposition = @scale, version = 2 : i32,
    composite_attributes = {{axis = 1 : i64}}}} : (tensor<i64>, {x}) -> {x}
  %r = stablehlo.composite "acme.scale" %five, %0 {{decomposition = @scale, version = 2 : i32,
    composite_attributes = {{axis = 1 : i64}}}} : (tensor<i64>, {x}) -> {x}"""
    return (
        main(b, s, body, x[7:-1])
        + f"""
func.func private @scale(%n: tensor<i64>, %x: {x}) -> {x} {{
  %f = stablehlo.convert %n : (tensor<i64>) -> tensor<f32>
  %0 = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> {x}
  %1 = stablehlo.divide %x, %0 : {x}
  %2 = stablehlo.reshape %1 : ({x}) -> {flat}
  %3 = stablehlo.composite "acme.erf" %2 {{decomposition = @erf}} : ({flat}) -> {flat}
  %4 = stablehlo.reshape %3 : ({flat}) -> {x}
  return %4 : {x}
}}
func.func private @erf(%x: {flat}) -> {flat} {{
  %c = stablehlo.constant dense<2.0> : {flat}
  %0 = chlo.erf %x : {flat} -> {flat}
  %1 = stablehlo.multiply %0, %c : {flat}
  return %1 : {flat}
}}
"""
    )


PROGRAMS: Mapping[str, Program] = {
    "reshape": reshape,
    "broadcast": broadcast,
    "slices": slices,
    "starts": starts,
    "gather": gather,
    "running sum": running(1, 0),
    "running sum from the end": running(0, 1),
    "strided": strided,
    "numbers": numbers,
    "loop": loop,
    "composites": composites,
}


def recordings(program: Program) -> list[Recording]:
    return [
        Recording(Module.parse(program(b, s)), {"batch": b, "seq": s})
        for b, s in zip(BATCH, SEQ, strict=True)
    ]


def types(b: int, s: int) -> list[str]:
    return [f"tensor<{b}x{s}x4xf32>", f"tensor<{b}x{s}xi64>", "tensor<4x6xf32>"]


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_at_other_sizes(program: Program) -> None:
    general = generalize(recordings(program))
    assert general.inputs == (("batch", "seq", 4), ("batch", "seq"), (4, 6))
    assert "tensor<?x" in general.module.text
    written = Module.from_bytes(general.module.portable())
    for b, s in ((2, 4), (6, 17), (1, 6)):
        expected = Module.parse(program(b, s))
        for module in (general.module, written):
            refined = refine(module, types(b, s))
            assert "?" not in refined.text
            assert composite_count(refined) == composite_count(expected)
            assert program_difference(refined, expected) is None


def test_composites_keep_operands_and_attributes() -> None:
    general = generalize(recordings(composites)).module.text
    (call, *_) = re.findall(r'composite "acme.scale" .*', general)
    assert re.fullmatch(
        r'composite "acme\.scale" %\w+, %arg0 \{composite_attributes = \{axis = 1 : i64\},'
        r" decomposition = @\w+, version = 2 : i32\}"
        r" : \(tensor<i64>, tensor<\?x\?x4xf32>\) -> tensor<\?x\?x4xf32>",
        call,
    )
    refined = refine(generalize(recordings(composites)).module, types(2, 3)).text
    assert "optimization_barrier" not in refined
    assert refined.count("func.func private") == 2  # both calls share one decomposition again


def test_chlo_at_sizes_that_vary_becomes_stablehlo() -> None:
    general = legalize_chlo(generalize(recordings(composites)).module)
    assert not re.search(r"\b(chlo|shape)\.|index", general.text)
    refined = refine(general, types(3, 4))
    assert program_difference(refined, Module.parse(composites(3, 4))) is None


# ---- refusals ----


def another_operation(b: int, s: int) -> str:
    operation = "tanh" if s > 4 else "negate"
    x = f"{b}x{s}x4xf32"
    return main(b, s, f"  %r = stablehlo.{operation} %x : tensor<{x}>", x)


def another_operand(b: int, s: int) -> str:
    x = f"tensor<{b}x{s}x4xf32>"
    taken = "%0" if b > 4 else "%x"
    body = f"  %0 = stablehlo.tanh %x : {x}\n  %r = stablehlo.add %0, {taken} : {x}"
    return main(b, s, body, x[7:-1])


def half(b: int, s: int) -> str:
    x, result = f"tensor<{b}x{s}x4xf32>", f"{b}x{s // 2}x4xf32"
    body = f"  %r = stablehlo.slice %x [0:{b}, 0:{s // 2}, 0:4] : ({x}) -> tensor<{result}>"
    return main(b, s, body, result)


def constants(values: Callable[[int], list[int]]) -> Program:
    def program(b: int, s: int) -> str:
        body = f"""  %c = stablehlo.constant dense<{values(s)}> : tensor<{s}xi64>
  %0 = stablehlo.broadcast_in_dim %c, dims = [1] : (tensor<{s}xi64>) -> tensor<{b}x{s}xi64>
  %r = stablehlo.add %0, %i : tensor<{b}x{s}xi64>"""
        return main(b, s, body, f"{b}x{s}xi64")

    return program


def rows(b: int, s: int) -> str:
    """A decomposition makes a tensor of a size that none of its operands has."""
    made = f"tensor<{b}x4xf32>"
    body = f"""  %0 = stablehlo.slice %w [0:1, 0:4] : (tensor<4x6xf32>) -> tensor<1x4xf32>
  %r = stablehlo.composite "acme.rows" %0 {{decomposition = @rows}} : (tensor<1x4xf32>) -> {made}"""
    decomposition = f"""
func.func private @rows(%x: tensor<1x4xf32>) -> {made} {{
  %0 = stablehlo.broadcast_in_dim %x, dims = [0, 1] : (tensor<1x4xf32>) -> {made}
  return %0 : {made}
}}
"""
    return main(b, s, body, made[7:-1]) + decomposition


def called(b: int, s: int) -> str:
    x = f"tensor<{b}x{s}x4xf32>"
    return main(b, s, f"  %r = stablehlo.custom_call @acme(%x) : ({x}) -> {x}", x[7:-1])


NO_EXPRESSION = "has values that depend on a size in a way that is not known here"
REFUSALS: Mapping[str, tuple[Program, str]] = {
    "another operation": (
        another_operation,
        "the program is a different one at batch=5, seq=11 than at batch=5, seq=3 (operation"
        " stablehlo.tanh and stablehlo.negate); the module must run the same operators at all"
        " sizes, so remove what depends on the size, or keep the dimension fixed",
    ),
    "another operand": (another_operand, "(operand 1 of stablehlo.add: value another)"),
    "an attribute": (
        lambda b, s: composites(b, s).replace("axis = 1", f"axis = {s}"),
        "the attribute composite_attributes of acme.scale is {axis = 11 : i64} at batch=5, seq=11"
        " and {axis = 3 : i64} at batch=5, seq=3; an attribute cannot vary",
    ),
    "a size": (
        half,
        "the limit of stablehlo.slice is 5, 5, 1, 7, which cannot be computed from the sizes",
    ),
    "squares": (constants(lambda s: [n * n for n in range(s)]), NO_EXPRESSION),
    "odd sizes": (constants(lambda s: [s % 2] * s), NO_EXPRESSION),
    "a composite": (
        rows,
        "composite acme.rows: a dimension of the result of stablehlo.broadcast_in_dim is 5, 3, 5,"
        " 6, which cannot be computed",
    ),
    "a window": (
        lambda b, s: running(1, 0)(b, s).replace(f"[{s - 1}, 0]", f"[{s - 2}, 1]"),
        "a window of stablehlo.reduce_window has a size that varies",
    ),
    "a custom call": (called, "stablehlo.custom_call has a result whose size varies"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_cannot_vary_is_named(name: str) -> None:
    program, message = REFUSALS[name]
    with pytest.raises(DynamicSizeError, match=re.escape(message)):
        generalize(recordings(program))


def test_sizes_that_do_not_fit() -> None:
    module = generalize(recordings(reshape)).module
    with pytest.raises(DynamicSizeError, match="the program cannot have inputs of tensor<2x3x5"):
        refine(module, ["tensor<2x3x5xf32>", *types(2, 3)[1:]])
