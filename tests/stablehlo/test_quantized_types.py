"""Quantized types: files with them are read, inspected and lowered; arrays of them are refused."""

import io
import re

import numpy as np
import pytest

from lowering.stablehlo import (
    Module,
    RunError,
    StableHLOError,
    bind,
    compare,
    composite_count,
    decompose,
    inspect,
    run,
    to_custom_call,
)

MODULE = """
!signed = !quant.uniform<i8:f32, 0.5>
!unsigned = !quant.uniform<u8:f32, 0.5:128>
!per_axis = !quant.uniform<i8<-127:127>:f32:1, {0.5, 0.25}>
func.func @main(%x: tensor<4x2xf32>) -> (tensor<4x2x!unsigned>, tensor<4x2xf32>) {
  %0 = stablehlo.uniform_quantize %x : (tensor<4x2xf32>) -> tensor<4x2x!signed>
  %1 = stablehlo.composite "acme.abs" %0 {decomposition = @abs, version = 2 : i32}
    : (tensor<4x2x!signed>) -> tensor<4x2x!signed>
  %2 = stablehlo.uniform_quantize %1 : (tensor<4x2x!signed>) -> tensor<4x2x!unsigned>
  %3 = stablehlo.uniform_quantize %x : (tensor<4x2xf32>) -> tensor<4x2x!per_axis>
  %4 = stablehlo.uniform_dequantize %3 : (tensor<4x2x!per_axis>) -> tensor<4x2xf32>
  return %2, %4 : tensor<4x2x!unsigned>, tensor<4x2xf32>
}
func.func private @abs(%x: tensor<4x2x!signed>) -> tensor<4x2x!signed> {
  %0 = stablehlo.abs %x : tensor<4x2x!signed>
  return %0 : tensor<4x2x!signed>
}
"""
SIGNED = "tensor<4x2x!quant.uniform<i8:f32, 5.000000e-01>>"


def test_text_and_bytes_are_read() -> None:
    module = Module.parse(MODULE)
    bytecode = io.BytesIO()
    module.ir.operation.write_bytecode(bytecode)
    for data in (module.text.encode(), bytecode.getvalue(), module.portable()):
        assert Module.from_bytes(data).text == module.text


def test_a_report_counts_what_is_stored() -> None:
    report = inspect(Module.parse(MODULE))
    (composite,) = report.composites
    assert (composite.name, composite.operands) == ("acme.abs", (SIGNED,))
    assert composite.bytes == 8
    assert report.bytes == 4 * 8 + 4 * 8


def test_composites_are_lowered() -> None:
    module = Module.parse(MODULE)
    assert composite_count(decompose(module)) == {}
    call = f"stablehlo.custom_call @kernel(%0) {{acme}} : ({SIGNED}) -> {SIGNED}"
    named = to_custom_call(module, {"acme.abs": "kernel"})
    assert call.partition(" {")[0] in named.text
    named.verify()


def test_what_needs_arrays_is_an_error_that_says_so() -> None:
    module = Module.parse(MODULE)
    message = r"i8:f32, .* is quantized: such composites can"
    with pytest.raises(StableHLOError, match=message):
        bind(module, {"acme.abs": abs})
    (problem,) = compare(module, {"acme.abs": abs}).problems
    assert re.search(message, problem)
    with pytest.raises(RunError, match="for cpu; XLA has no quantized types: "):
        run(module, np.ones((4, 2), np.float32))
