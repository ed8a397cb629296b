"""Quantized types: files with them are read, inspected and lowered; arrays of them are refused."""

import io
import re

import numpy as np
import pytest
from composites_testing.passes import load

from lowering import stablehlo

SIGNED = "tensor<4x2x!quant.uniform<i8:f32, 5.000000e-01>>"


def test_text_and_bytes_are_read() -> None:
    module = load("quantized")
    bytecode = io.BytesIO()
    module.ir.operation.write_bytecode(bytecode)
    for data in (module.text.encode(), bytecode.getvalue(), module.portable()):
        assert stablehlo.Module.from_bytes(data).text == module.text


def test_a_report_counts_what_is_stored() -> None:
    report = stablehlo.inspect(load("quantized"))
    (composite,) = report.composites
    assert (composite.name, composite.operands) == ("acme.abs", (SIGNED,))
    assert composite.bytes == 8
    assert report.bytes == 4 * 8 + 4 * 8


def test_composites_are_lowered() -> None:
    module = load("quantized")
    assert stablehlo.composite_count(stablehlo.decompose(module)) == {}
    call = f"stablehlo.custom_call @kernel(%0) {{acme}} : ({SIGNED}) -> {SIGNED}"
    named = stablehlo.to_custom_call(module, {"acme.abs": "kernel"})
    assert call.partition(" {")[0] in named.text
    named.verify()


def test_what_needs_arrays_is_an_error_that_says_so() -> None:
    module = load("quantized")
    message = r"i8:f32, .* is quantized: composites with such operands can"
    with pytest.raises(stablehlo.StableHLOError, match=message):
        stablehlo.bind(module, {"acme.abs": abs})
    (problem,) = stablehlo.compare(module, {"acme.abs": abs}).problems
    assert re.search(message, problem)
    with pytest.raises(stablehlo.RunError, match="for cpu; XLA has no quantized types: "):
        stablehlo.run(module, np.ones((4, 2), np.float32))
