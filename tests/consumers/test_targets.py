"""Targets on the consumers: what passes replace agrees, and what is refused is refused."""

import ast
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from composites_testing.cases import Case, cases
from composites_testing.passes import DATA, load, random_inputs
from composites_testing.scatters import FORMS, arguments, scatter
from composites_testing.selection import only_fast
from composites_testing.stablehlo_commands import invoke

from benchmarks.consumer_runs import CONSUMERS, TARGET, Consumer
from lowering.stablehlo import (
    Module,
    UnsupportedOperationError,
    compile_module,
    run,
    run_passes,
    target_passes,
)
from lowering.stablehlo.bindings import find_operations
from lowering.stablehlo.dtypes import static_tensor
from lowering.stablehlo.refusals import LITERT

RANDOM = np.random.default_rng(0)
PROGRAMS = Path(__file__).parent / "programs.mlir"


def program(lines: str, *arguments: str, result: str) -> Module:
    inputs = ", ".join(f"%a{number}: {type_}" for number, type_ in enumerate(arguments))
    return Module.parse(f"func.func @main({inputs}) -> {result} {{ {lines} return %r : {result} }}")


Called = tuple[Module, list[Any]]
"""A program and its operands."""


def called(case: Case) -> Called:
    """A program of the file, with the operands that it names, or normally distributed ones."""
    module = case.module()
    types = compile_module(module).inputs
    for line in case.all("with"):
        tensors = [tensor for tensor in map(static_tensor, types) if tensor]
        numbers = zip(ast.literal_eval(line), tensors, strict=True)
        return module, [np.array(values, dtype) for values, (_, dtype) in numbers]
    return module, random_inputs(types)


def scattered(form: str, combination: str) -> Called:
    return scatter(form, combination), arguments(form, np.float32)


CALLS: dict[str, Callable[[], Called]] = {
    case.title: partial(called, case) for case in cases(PROGRAMS.read_text(encoding="utf-8"))
}
CALLS |= {
    f"scatter: {form}, {combination}": partial(scattered, form, combination)
    for form in FORMS
    for combination in ("add", "maximum")
}


@pytest.mark.parametrize("consumer", ["iree", "litert"])
@pytest.mark.parametrize(
    "name", only_fast(sorted(CALLS), "a remainder", "scatter: two dimensions, add")
)
def test_what_is_replaced_agrees(name: str, consumer: Consumer) -> None:
    module, operands = CALLS[name]()
    (expected,) = run(module, *operands)
    lowered = run_passes(module, target_passes(TARGET[consumer]))
    (actual,) = CONSUMERS[consumer](lowered, operands)
    expected, actual = (np.asarray(result, float) for result in (expected, actual))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


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
        types = [type_] if name in OF_ONE else [type_, type_]
        module = program(f"%r = stablehlo.{name} {operands} : {type_}", *types, result=type_)
        values = [np.full((2, 3), 2 if element != "i1" else 1, ELEMENTS[element]) for _ in types]
        (operation,) = find_operations(module.ir, f"stablehlo.{name}")
        stated = LITERT[f"stablehlo.{name}"](operation)
        try:
            CONSUMERS["litert"](module, values)
        except (RuntimeError, ValueError):
            refused = True
        else:
            refused = False
        if stated != refused:
            wrong.append((element, f"said {stated}, is {refused}"))
    assert not wrong


def test_a_loop_that_starts_from_constants_is_refused_too() -> None:
    module = load("loop_from_constants")
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
    inputs = [RANDOM.standard_normal((4, count)).astype(np.float32) * 3]
    if not FOURIER[consumer, kind, length]:
        (expected,) = run(module, *inputs)
        (actual,) = CONSUMERS[consumer](run_passes(module, target_passes(TARGET[consumer])), inputs)
        np.testing.assert_allclose(actual, expected, atol=1e-4)
        return
    with pytest.raises(UnsupportedOperationError, match=r"does not take stablehlo\.(fft|complex)"):
        run_passes(module, target_passes(TARGET[consumer]))
    refused = "fft" if consumer == "iree" else "Failed to export|IsPowerOfTwo"
    with pytest.raises(Exception, match=refused):
        CONSUMERS[consumer](module, inputs)


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


BACKENDS = {"litert": "litert_converter", "openvino": "openvino"}


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_program_is_diagnosed_in_parts(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing backend is one error, and not one for each composite."""
    diagnosis = ("diagnose", DATA / "block.mlir", "--backend", backend)
    code, out, _ = invoke(*diagnosis)
    assert (code, out.count("right")) == (0, 3)
    monkeypatch.setitem(sys.modules, BACKENDS[backend], None)
    code, _, err = invoke(*diagnosis)
    assert (code, err.count("error: "), err.count(" cannot be imported ")) == (1, 1, 1)
    assert f"pip install {BACKENDS[backend].replace('_', '-')}" in err
