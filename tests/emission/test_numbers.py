"""Python numbers in a decomposition: constants, which may be hidden from XLA and LLVM."""

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from composites_testing.hlo import hlo_of, stablehlo_of

from lowering.emission import hlo_proto
from lowering.emission.composite import CompositeHlo, emit_composite
from lowering.emission.types import DecompositionHlo, TensorType
from lowering.stablehlo import Module, compile_module
from lowering.stablehlo.run import enable_x64

VALUES = {
    "i1": np.bool_(True), "i8": np.int8(-3), "i16": np.int16(-300), "i32": np.int32(-70000),
    "i64": np.int64(-(2**40)), "ui8": np.uint8(200), "ui16": np.uint16(60000),
    "ui32": np.uint32(2**31 + 1), "ui64": np.uint64(2**63 + 1), "f16": np.float16(0.3),
    "bf16": ml_dtypes.bfloat16(0.3), "f8E5M2": ml_dtypes.float8_e5m2(0.3),
    "f8E4M3FN": ml_dtypes.float8_e4m3fn(0.3), "f8E4M3B11FNUZ": ml_dtypes.float8_e4m3b11fnuz(0.3),
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz(0.3), "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz(0.3),
    "f8E4M3": ml_dtypes.float8_e4m3(0.3), "f8E3M4": ml_dtypes.float8_e3m4(0.3),
    "f8E8M0FNU": ml_dtypes.float8_e8m0fnu(0.25), "f32": np.float32(0.3),
    "f64": np.float64(0.1) + 0.2, "complex<f32>": np.complex64(0.3 - 2j),
    "complex<f64>": np.complex128(0.1 - 2j),
}  # fmt: skip


def test_every_type_with_a_literal_has_a_value() -> None:
    assert VALUES.keys() == hlo_proto.VALUE_FIELDS.keys()


def decomposition(
    function: Any, *arrays: Any, copied: tuple[int, ...] = (), hidden: bool = True
) -> DecompositionHlo:
    """A function, whose last argument is a number."""
    numbers = {len(arrays) - 1: np.asarray(arrays[-1])}
    module = hlo_of(function, *arrays)
    return DecompositionHlo(module, copied, numbers=numbers, hides_numbers=hidden)


def stablehlo(emitted: CompositeHlo) -> Module:
    return stablehlo_of(hlo_proto.Module.FromString(emitted.module))


def written(text: str) -> list[str]:
    """The lines of StableHLO, without the numbers of its values."""
    return [re.sub(r"%\w+", "%", line.strip()) for line in text.splitlines()]


def test_xla_and_llvm_do_not_know_a_number() -> None:
    power = decomposition(lambda x, y: x**y, np.ones(3, np.float32), np.float32(3), copied=(0,))
    emitted = emit_composite("acme.power", 1, {}, [TensorType("f32", (3,))], power)
    lines = written(stablehlo(emitted).text)
    first = lines.index(
        "% = stablehlo.constant dense<[1.000000e+00, 3.000000e+00]> : tensor<2xf32>"
    )
    assert lines[first + 1 : first + 4] == [
        "% = stablehlo.optimization_barrier % : tensor<2xf32>",
        "% = stablehlo.slice % [1:2] : (tensor<2xf32>) -> tensor<1xf32>",
        "% = stablehlo.reshape % : (tensor<1xf32>) -> tensor<f32>",
    ]
    assert "(%: tensor<3xf32>)" in lines[1]


@pytest.mark.parametrize("hidden", [True, False], ids=["hidden", "known"])
def test_every_type_of_number_keeps_its_value(hidden: bool) -> None:
    for value in VALUES.values():
        keeps_its_value(value, hidden)


def test_numbers_that_could_equal_the_other_one() -> None:
    for number in (0.0, 1.0, -0.0, np.nan, np.inf, 5e-324, 1.7e308):
        keeps_its_value(np.float64(number))


def keeps_its_value(number: Any, hidden: bool = True) -> None:
    value = np.asarray(number)
    with enable_x64():
        identity = decomposition(lambda x: x, value, hidden=hidden)
    lowered = stablehlo(emit_composite("acme.number", 1, {}, [], identity))
    pair = re.search(r"stablehlo.constant dense<\[.*\]> : tensor<2x", lowered.text)
    assert bool(pair) == hidden
    (result,) = compile_module(lowered)()
    assert np.asarray(result).dtype == value.dtype
    assert np.asarray(result).tobytes() == value.tobytes()
