"""Targets on the consumers: what passes replace agrees, and what is refused is refused."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from composites_testing.scatters import FORMS, arguments, scatter
from composites_testing.selection import only_fast

from benchmarks.consumer_runs import CONSUMERS, TARGET, Consumer
from lowering.stablehlo import Module, UnsupportedOperationError, run, run_passes, target_passes
from lowering.stablehlo.refusals import LITERT

X, PAIR = "tensor<4x6xf32>", "(tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xi1>"
RANDOM = np.random.default_rng(0)


def program(lines: str, *arguments: str, result: str) -> Module:
    given = ", ".join(f"%a{number}: {type_}" for number, type_ in enumerate(arguments))
    return Module.parse(f"func.func @main({given}) -> {result} {{ {lines} return %r : {result} }}")


def floats(*sizes: int) -> Any:
    return RANDOM.standard_normal(sizes).astype(np.float32) * 3


SORT = """%s = "stablehlo.sort"(%a0) <{dimension = 1 : i64}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %c = stablehlo.compare LT, %p, %q, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
}) : (tensor<4x6xf32>) -> tensor<4x6xf32>
%r = stablehlo.slice %s [0:4, 0:6] : (tensor<4x6xf32>) -> tensor<4x6xf32>"""
TOP = """%i = stablehlo.iota dim = 1 : tensor<4x6xi32>
%s:2 = "stablehlo.sort"(%a0, %i) <{dimension = 1 : i64, is_stable = false}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>, %x: tensor<i32>, %y: tensor<i32>):
    %c = stablehlo.compare GT, %p, %q, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
}) : (tensor<4x6xf32>, tensor<4x6xi32>) -> (tensor<4x6xf32>, tensor<4x6xi32>)
%r = stablehlo.slice %s#1 [0:4, 0:2] : (tensor<4x6xi32>) -> tensor<4x2xi32>"""
ARGMAX = """%i = stablehlo.iota dim = 1 : tensor<4x6xi32>
%l = stablehlo.constant dense<0xFF800000> : tensor<f32>
%z = stablehlo.constant dense<0> : tensor<i32>
%s:2 = stablehlo.reduce(%a0 init: %l), (%i init: %z) across dimensions = [1]
  : (tensor<4x6xf32>, tensor<4x6xi32>, tensor<f32>, tensor<i32>) -> (tensor<4xf32>, tensor<4xi32>)
  reducer(%p: tensor<f32>, %q: tensor<f32>) (%x: tensor<i32>, %y: tensor<i32>) {
    %c = stablehlo.compare GE, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %d = stablehlo.select %c, %p, %q : tensor<i1>, tensor<f32>
    %e = stablehlo.compare EQ, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %f = stablehlo.minimum %x, %y : tensor<i32>
    %g = stablehlo.select %c, %x, %y : tensor<i1>, tensor<i32>
    %h = stablehlo.select %e, %f, %g : tensor<i1>, tensor<i32>
    stablehlo.return %d, %h : tensor<f32>, tensor<i32>
  }
%r = stablehlo.reshape %s#1 : (tensor<4xi32>) -> tensor<4x1xi32>"""
CUMSUM = """%z = stablehlo.constant dense<0> : tensor<ui8>
%n = stablehlo.constant dense<0> : tensor<4x6xui8>
%m = stablehlo.convert %a0 : (tensor<4x6xi1>) -> tensor<4x6xui8>
%w = "stablehlo.reduce_window"(%m, %z) <{window_dimensions = array<i64: 1, 6>,
  padding = dense<[[0, 0], [5, 0]]> : tensor<2x2xi64>}> ({
  ^bb0(%p: tensor<ui8>, %q: tensor<ui8>):
    %s = stablehlo.add %p, %q : tensor<ui8>
    stablehlo.return %s : tensor<ui8>
}) : (tensor<4x6xui8>, tensor<ui8>) -> tensor<4x6xui8>
%k = stablehlo.and %m, %m : tensor<4x6xui8>
%t = stablehlo.compare NE, %k, %n : (tensor<4x6xui8>, tensor<4x6xui8>) -> tensor<4x6xi1>
%i = stablehlo.convert %w : (tensor<4x6xui8>) -> tensor<4x6xi32>
%o = stablehlo.constant dense<-1> : tensor<4x6xi32>
%r = stablehlo.select %t, %i, %o : tensor<4x6xi1>, tensor<4x6xi32>"""
ALL = f"""%b = stablehlo.compare GT, %a0, %a1 : {PAIR}
%t = stablehlo.constant dense<true> : tensor<i1>
%f = stablehlo.constant dense<false> : tensor<i1>
%r = "stablehlo.reduce"(%b, %t) <{{dimensions = array<i64: 1>}}> ({{
  ^bb0(%p: tensor<i1>, %q: tensor<i1>):
    %c = stablehlo.and %p, %q : tensor<i1>
    %d = stablehlo.select %c, %t, %f : tensor<i1>, tensor<i1>
    stablehlo.return %d : tensor<i1>
}}) : (tensor<4x6xi1>, tensor<i1>) -> tensor<4xi1>"""
WINDOW = """%z = stablehlo.constant dense<0.0> : tensor<f32>
%r = "stablehlo.select_and_scatter"(%a0, %a1, %z) <{
  window_dimensions = array<i64: 1, 1, 3, 3>, window_strides = array<i64: 1, 1, 2, 2>,
  padding = dense<[[0, 0], [0, 0], [1, 1], [1, 1]]> : tensor<4x2xi64>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %c = stablehlo.compare GE, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
}, {
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %c = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %c : tensor<f32>
}) : (tensor<1x2x8x8xf32>, tensor<1x2x4x4xf32>, tensor<f32>) -> tensor<1x2x8x8xf32>"""


def convolution(window: str, groups: int) -> str:
    return (
        "stablehlo.convolution(%a0, %a1) dim_numbers ="
        f" [f, b, 0, 1]x[i, o, 0, 1]->[f, b, 0, 1], window = {{{window}}}"
        f" {{batch_group_count = {groups} : i64, feature_group_count = 1 : i64}}"
    )


def operation(line: str, *operands: Any) -> tuple[Module, list[Any]]:
    """A program of one operation, which ends with its type, and its operands."""
    types, _, result = line.rpartition(" : ")[2].strip("()").rpartition(") -> ")
    arguments = types.split(", ") if types else [result] * len(operands)
    return program(f"%r = {line}", *arguments, result=result), list(operands)


LEAST = -(2**31)
CALLS: dict[str, tuple[Module, list[Any]]] = {
    "a sort": (program(SORT, X, result=X), [floats(4, 6)]),
    "top-k": (program(TOP, X, result="tensor<4x2xi32>"), [floats(4, 6)]),
    "argmax": (program(ARGMAX, X, result="tensor<4x1xi32>"), [floats(4, 6)]),
    "a running sum of booleans": (
        program(CUMSUM, "tensor<4x6xi1>", result="tensor<4x6xi32>"),
        [RANDOM.random((4, 6)) < 0.5],
    ),
    "all": (program(ALL, X, X, result="tensor<4xi1>"), [floats(4, 6) + 3, floats(4, 6) - 3]),
    "a remainder": operation(f"stablehlo.remainder %a0, %a1 : {X}", floats(4, 6), floats(4, 6)),
    "a remainder of the least integer": operation(
        "stablehlo.remainder %a0, %a1 : tensor<5xi32>",
        np.full(5, LEAST, np.int32),
        np.array([3, -3, 1, -1, LEAST], np.int32),
    ),
    "a product with dimensions in another order": operation(
        "stablehlo.dot_general %a0, %a1, contracting_dims = [0, 2] x [1, 0]"
        " : (tensor<3x4x2xf32>, tensor<2x3x5xf32>) -> tensor<4x5xf32>",
        floats(3, 4, 2),
        floats(2, 3, 5),
    ),
    "a comparison with a Python number": (
        program(
            "%c = stablehlo.constant dense<0.3> : tensor<4xf64>"
            " %w = stablehlo.convert %a0 : (tensor<4xf32>) -> tensor<4xf64>"
            " %r = stablehlo.compare GT, %w, %c"
            " : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xi1>",
            "tensor<4xf32>",
            result="tensor<4xi1>",
        ),
        [np.array([0.3, 0.29999998, 0.30000004, -1], np.float32)],
    ),
    "an unsigned comparison": operation(
        "stablehlo.compare LT, %a0, %a1 : (tensor<4xui32>, tensor<4xui32>) -> tensor<4xi1>",
        np.array([0, 7, 2**32 - 1, 5], np.uint32),
        np.array([1, 7, 3, 2**31], np.uint32),
    ),
    "a maximum from zero": (
        program(
            "%z = stablehlo.constant dense<0.0> : tensor<f32>"
            " %r = stablehlo.reduce(%a0 init: %z) applies stablehlo.maximum"
            f" across dimensions = [1] : ({X}, tensor<f32>) -> tensor<4xf32>",
            X,
            result="tensor<4xf32>",
        ),
        [floats(4, 6)],
    ),
    "a gradient of max pooling": (
        program(WINDOW, "tensor<1x2x8x8xf32>", "tensor<1x2x4x4xf32>", result="tensor<1x2x8x8xf32>"),
        [floats(1, 2, 8, 8), floats(1, 2, 4, 4)],
    ),
    "a gradient of a depthwise kernel": operation(
        convolution("pad = [[1, 1], [1, 1]]", 4)
        + " : (tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>) -> tensor<4x1x3x3xf32>",
        floats(2, 4, 8, 8),
        floats(2, 4, 8, 8),
    ),
    "a gradient of a convolution with strides": operation(
        convolution("pad = [[1, 2], [2, 1]], lhs_dilate = [2, 2]", 1)
        + " : (tensor<3x2x4x4xf32>, tensor<3x5x3x3xf32>) -> tensor<5x2x8x8xf32>",
        floats(3, 2, 4, 4),
        floats(3, 5, 3, 3),
    ),
}
CALLS |= {
    f"scatter: {form}, {combination or 'replace'}": (
        scatter(form, combination),
        arguments(form, np.float32),
    )
    for form in FORMS
    for combination in ("add", "maximum")
}


@pytest.mark.parametrize("consumer", ["iree", "litert"])
@pytest.mark.parametrize(
    "name", only_fast(sorted(CALLS), "a remainder", "scatter: two dimensions, add")
)
def test_what_is_replaced_agrees(name: str, consumer: Consumer) -> None:
    module, given = CALLS[name]
    (want,) = run(module, *given)
    lowered = run_passes(module, target_passes(TARGET[consumer]))
    (found,) = CONSUMERS[consumer](lowered, given)
    want, found = (np.asarray(each, float) for each in (want, found))
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-6 * np.abs(want).max())


ELEMENTS: dict[str, Any] = {
    "f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
    "i1": np.bool_, "i8": np.int8, "ui8": np.uint8, "i32": np.int32, "ui32": np.uint32,
    "i64": np.int64,
}  # fmt: skip
FLOATS = ("f32", "f64", "f16", "bf16")
NUMBERS = (*FLOATS, "i8", "i32", "i64")
SIGNED = ("i8", "i32", "i64")
UNSIGNED = ("ui8", "ui32")
INTEGERS = (*SIGNED, *UNSIGNED)
OF_ONE = {
    **dict.fromkeys(("cbrt", "ceil", "cosine", "exponential", "exponential_minus_one"), FLOATS),
    **dict.fromkeys(("floor", "log", "log_plus_one", "logistic", "round_nearest_afz"), FLOATS),
    **dict.fromkeys(("round_nearest_even", "rsqrt", "sine", "sqrt", "tan", "tanh"), FLOATS),
    **dict.fromkeys(("popcnt", "count_leading_zeros"), INTEGERS),
    "abs": NUMBERS,
    "sign": ("f32", "i32", "i64"),
    "negate": (*NUMBERS, *UNSIGNED),
}
OF_TWO = {
    **dict.fromkeys(("add", "divide", "multiply", "power", "subtract"), (*NUMBERS, *UNSIGNED)),
    **dict.fromkeys(("and", "or", "xor"), (*INTEGERS, "i1")),
    **dict.fromkeys(("maximum", "minimum"), tuple(ELEMENTS)),
    "shift_left": INTEGERS,
}


@pytest.mark.parametrize("name", only_fast(sorted([*OF_ONE, *OF_TWO]), "abs", "xor"))
def test_litert_refuses_what_is_said_and_nothing_else(name: str) -> None:
    wrong = []
    for element in (OF_ONE | OF_TWO)[name]:
        type_ = f"tensor<2x3x{element}>"
        operands = "%a0" if name in OF_ONE else "%a0, %a1"
        given = [type_] if name in OF_ONE else [type_, type_]
        module = program(f"%r = stablehlo.{name} {operands} : {type_}", *given, result=type_)
        values = [np.full((2, 3), 2 if element != "i1" else 1, ELEMENTS[element]) for _ in given]
        (operation,) = (o.operation for o in _main(module) if o.name == f"stablehlo.{name}")
        said = LITERT[f"stablehlo.{name}"](operation)
        try:
            CONSUMERS["litert"](module, values)
        except (RuntimeError, ValueError):
            refused = True
        else:
            refused = False
        if said != refused:
            wrong.append((element, f"said {said}, is {refused}"))
    assert not wrong


def test_a_loop_that_starts_from_constants_is_refused_too() -> None:
    module = program(
        """
        %zero = stablehlo.constant dense<0> : tensor<i32>
        %start = stablehlo.constant dense<0.0> : tensor<4xf32>
        %loop:2 = stablehlo.while(%i = %zero, %x = %start) : tensor<i32>, tensor<4xf32>
          cond {
            %end = stablehlo.constant dense<3> : tensor<i32>
            %goes = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %goes : tensor<i1>
          } do {
            %one = stablehlo.constant dense<1> : tensor<i32>
            %next = stablehlo.add %i, %one : tensor<i32>
            %sum = stablehlo.add %x, %a0 : tensor<4xf32>
            stablehlo.return %next, %sum : tensor<i32>, tensor<4xf32>
          }
        %r = stablehlo.negate %loop#1 : tensor<4xf32>
        """,
        "tensor<4xf32>",
        result="tensor<4xf32>",
    )
    with pytest.raises(UnsupportedOperationError, match=r"does not take stablehlo\.while"):
        run_passes(module, target_passes("litert"))
    with pytest.raises((RuntimeError, ValueError)):
        CONSUMERS["litert"](module, [np.ones(4, np.float32)])


def fourier(kind: str, length: int) -> Module:
    """A transform, and complex numbers as pairs of real ones."""
    half = f"tensor<4x{length // 2 + 1}xcomplex<f32>>"
    whole, real = f"tensor<4x{length}xcomplex<f32>>", f"tensor<4x{length}xf32>"
    from_, to = {"FFT": (whole, whole), "RFFT": (real, half), "IRFFT": (half, real)}[kind]
    parts = from_.replace("complex<f32>", "f32")
    lines = f"%c = stablehlo.complex %a0, %a0 : {from_}" if from_ != real else ""
    operand = "%c" if lines else "%a0"
    lines += (
        f" %f = stablehlo.fft {operand}, type = {kind}, length = [{length}] : ({from_}) -> {to}"
    )
    result = to.replace("complex<f32>", "f32")
    last = f"%r = stablehlo.real %f : ({to}) -> {result}" if to != real else ""
    last = last or f"%r = stablehlo.negate %f : {real}"
    return program(f"{lines} {last}", parts, result=result)


FOURIER = {
    ("iree", "FFT", 8): False,
    ("iree", "RFFT", 8): False,
    ("iree", "IRFFT", 8): False,
    ("iree", "RFFT", 6): True,
    ("litert", "RFFT", 8): False,
    ("litert", "RFFT", 6): True,
    ("litert", "FFT", 8): True,
    ("litert", "IRFFT", 8): True,
}


@pytest.mark.parametrize(
    ("consumer", "kind", "length"),
    [
        pytest.param(*case, marks=() if refused or case[0] == "litert" else pytest.mark.process)
        for case, refused in FOURIER.items()
    ],
)
def test_fourier_transforms(consumer: Consumer, kind: str, length: int) -> None:
    module = fourier(kind, length)
    count = length // 2 + 1 if kind == "IRFFT" else length
    given = [floats(4, count)]
    if not FOURIER[consumer, kind, length]:
        (want,) = run(module, *given)
        (found,) = CONSUMERS[consumer](run_passes(module, target_passes(TARGET[consumer])), given)
        np.testing.assert_allclose(found, want, atol=1e-4)
        return
    with pytest.raises(UnsupportedOperationError, match=r"does not take stablehlo\.(fft|complex)"):
        run_passes(module, target_passes(TARGET[consumer]))
    refused = "fft" if consumer == "iree" else "Failed to export|IsPowerOfTwo"
    with pytest.raises(Exception, match=refused):
        CONSUMERS[consumer](module, given)


def _main(module: Module) -> list[Any]:
    return list(module.ir.body.operations[0].regions[0].blocks[0].operations)


LINES = {
    "cholesky": "%r = stablehlo.cholesky %a0, lower = true : tensor<3x3xf32>",
    "reduce_precision": "%r = stablehlo.reduce_precision %a0, format = e5m10 : tensor<3x3xf32>",
}
OTHERS = (("litert", "cholesky"), ("litert", "reduce_precision"), ("iree", "cholesky"))


@pytest.mark.parametrize(("consumer", "name"), OTHERS)
def test_others_that_are_refused(consumer: Consumer, name: str) -> None:
    type_ = "tensor<3x3xf32>"
    module = program(LINES[name], type_, result=type_)
    with pytest.raises(UnsupportedOperationError, match=f"does not take stablehlo.{name} of f32"):
        run_passes(module, target_passes(TARGET[consumer]))
    with pytest.raises(Exception, match=name if consumer == "iree" else "Failed to export"):
        CONSUMERS[consumer](module, [np.eye(3, dtype=np.float32)])
