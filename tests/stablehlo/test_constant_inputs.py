"""constant_inputs: arguments that become constants."""

import ml_dtypes
import numpy as np
import pytest

from lowering.stablehlo import Module, UnsupportedOperationError, compile_module, constant_inputs

MODULE = """
func.func @main(%x: tensor<3xf32>, %y: tensor<3x!T!>, %z: tensor<3xf32>)
    -> (tensor<3xf32>, tensor<3x!T!>) {
  %0 = stablehlo.add %x, %z : tensor<3xf32>
  return %0, %y : tensor<3xf32>, tensor<3x!T!>
}
"""
VALUES = {
    "i1": (np.array([True, False, True]), "dense<[true, false, true]> : tensor<3xi1>"),
    "i64": (np.array([1, -2, 3]), "dense<[1, -2, 3]> : tensor<3xi64>"),
    "ui8": (np.array([1, 2, 255], np.uint8), "dense<[1, 2, 255]> : tensor<3xui8>"),
    "f16": (np.array([1, 2, 0.5], np.float16), "dense<[1.000000e+00, 2.000000e+00, 5.000000e-01]>"),
    "bf16": (
        np.array([1, 2, 0.5], ml_dtypes.bfloat16),
        "dense<[1.000000e+00, 2.000000e+00, 5.000000e-01]> : tensor<3xbf16>",
    ),
    "complex<f32>": (np.full(3, 1 + 2j, np.complex64), "dense<(1.000000e+00,2.000000e+00)>"),
}


def test_an_argument_becomes_a_constant() -> None:
    for element_type, (value, text) in VALUES.items():
        result = constant_inputs(Module.parse(MODULE.replace("!T!", element_type)), {1: value})
        result.verify()
        assert f"stablehlo.constant {text}" in result.text
        assert "@main(%arg0: tensor<3xf32>, %arg1: tensor<3xf32>)" in result.text
        assert "stablehlo.add %arg0, %arg1" in result.text


def test_many_truth_values_are_written_as_numbers() -> None:
    """Values are numbers, since versions of MLIR read hexadecimal truth values differently."""
    module = Module.parse(
        "func.func @main(%x: tensor<9x12xi1>) -> tensor<9x12xi1> {return %x: tensor<9x12xi1>}"
    )
    value = np.random.default_rng(0).random((9, 12)) > 0.5
    result = constant_inputs(module, {0: value})
    result.verify()
    assert ": tensor<9x12xui8>" in result.text
    (actual,) = compile_module(result)()
    np.testing.assert_array_equal(actual, value)


def test_values_that_do_not_fit() -> None:
    module = Module.parse(MODULE.replace("!T!", "f32"))
    with pytest.raises(UnsupportedOperationError, match="argument 1 of @main is tensor<3xf32>"):
        constant_inputs(module, {1: np.zeros(4, np.float32)})
    with pytest.raises(UnsupportedOperationError, match="@main has no argument 3"):
        constant_inputs(module, {3: np.zeros(3, np.float32)})
