"""run and compile_module: numbers, 64-bit types, and what does not fit."""

import ml_dtypes
import numpy as np
import pytest
from composites_testing.passes import load, program

from lowering.stablehlo import Module, RunError, compile_module, run

IDENTITY = Module.parse(
    """
    func.func @main(%a: tensor<2xbf16>, %b: tensor<i64>, %c: tensor<2xcomplex<f32>>)
        -> (tensor<2xbf16>, tensor<i64>, tensor<2xcomplex<f32>>) {
      return %a, %b, %c : tensor<2xbf16>, tensor<i64>, tensor<2xcomplex<f32>>
    }
    """
)


def test_dtypes_come_back_as_they_went_in() -> None:
    inputs = (np.ones(2, ml_dtypes.bfloat16), np.int64(2**40), np.ones(2, np.complex64))
    outputs = run(IDENTITY, *inputs)
    assert [output.dtype for output in outputs] == ["bfloat16", "int64", "complex64"]
    assert outputs[1] == 2**40


def test_an_executable_says_what_it_takes_and_runs_again() -> None:
    executable = compile_module(load("block"))
    assert executable.inputs == ("tensor<4x8xf32>", "tensor<8x8xf32>")
    assert executable.outputs == ("tensor<4x8xf32>",)
    x, w = np.ones((4, 8), np.float32), np.eye(8, dtype=np.float32)
    for _ in range(2):
        np.testing.assert_allclose(executable(x, w)[0], np.full((4, 8), 4 - np.tanh(2)), rtol=1e-6)


def test_inputs_that_do_not_fit_are_named() -> None:
    executable = compile_module(load("block"))
    x = np.ones((4, 8), np.float32)
    with pytest.raises(RunError) as caught:
        executable(x)
    assert str(caught.value) == ("@main takes 2 inputs (tensor<4x8xf32>, tensor<8x8xf32>), got 1")
    with pytest.raises(RunError) as caught:
        executable(x, np.ones((8, 8)))
    assert str(caught.value) == (
        "input 1 of @main is tensor<8x8xf32>, got an array of shape (8, 8) and dtype float64"
    )


def test_what_cannot_be_run_is_reported() -> None:
    call = "stablehlo.custom_call @nobody(%x) {api_version = 4 : i32}"
    body = f"%r = {call} : (tensor<2xf32>) -> tensor<2xf32>"
    module = program(body, "%x: tensor<2xf32>", "tensor<2xf32>")
    with pytest.raises(RunError, match=r"nobody"):
        run(module, np.ones(2, np.float32))
    with pytest.raises(RunError, match="no function @main to run; it has: @step"):
        run(Module.parse("func.func @step() { return }"))


def test_a_wide_product_of_bfloat16_runs_on_the_cpu_transposed_too() -> None:
    body = """
      %0 = stablehlo.dot %a, %b : (tensor<4x8xbf16>, tensor<8x4xbf16>) -> tensor<4x4xf32>
      %r = stablehlo.transpose %0, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>"""
    module = program(body, "%a: tensor<4x8xbf16>, %b: tensor<8x4xbf16>", "tensor<4x4xf32>")
    before = module.text
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(s).astype(ml_dtypes.bfloat16) for s in ((4, 8), (8, 4)))
    (result,) = run(module, a, b)
    np.testing.assert_allclose(result, (a.astype(np.float64) @ b.astype(np.float64)).T, atol=1e-6)
    assert module.text == before


def test_extremes_of_what_is_no_number_are_no_numbers() -> None:
    for name, start in (("maximum", "0xFF800000"), ("minimum", "0x7F800000")):
        body = f"""
          %start = stablehlo.constant dense<{start}> : tensor<f32>
          %r = stablehlo.reduce(%x init: %start) applies stablehlo.{name} across dimensions = [0]
            : (tensor<3xf32>, tensor<f32>) -> tensor<f32>"""
        module = program(body, "%x: tensor<3xf32>", "tensor<f32>")
        (result,) = run(module, np.array([np.nan, 0, 1], np.float32))
        assert np.isnan(result)
