"""to_custom_call: the operation it makes, and a compiled kernel that reads its attributes."""

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from composites_testing.passes import composite_module, load

from lowering.stablehlo import AttributeConversionError, Module, StableHLOError, run, to_custom_call


def scaled(attributes: str) -> Module:
    """x * 6 as a composite with these attributes."""
    body = """
          %c = stablehlo.constant dense<6.0> : tensor<2x3xf32>
          %r = stablehlo.multiply %x, %c : tensor<2x3xf32>"""
    return composite_module("acme.scale", "tensor<2x3xf32>", body, attributes=attributes)


ATTRIBUTES = """{axis = 1 : i64, factor = 2.0 : f32, mode = "fast", negate = true,
                 weights = dense<[1, -4]> : tensor<2xi64>}"""


def test_the_operation_and_the_unused_decomposition() -> None:
    text = to_custom_call(load("block"), {"acme.twice": "acme_twice"}).text
    assert text.count("stablehlo.custom_call @acme_twice(") == 2
    assert (
        "{api_version = 4 : i32, backend_config = {axis = 1 : i64, scale = 2.000000e+00 : f32}, "
        "operand_layouts = [dense<[1, 0]> : tensor<2xindex>], "
        "result_layouts = [dense<[1, 0]> : tensor<2xindex>]}"
    ) in text
    assert "acme.twice" not in text
    assert "@ptxla.outer.impl" in text


def test_scalars() -> None:
    text = to_custom_call(composite_module("acme.id", "tensor<f32>"), {"acme.id": "id"}).text
    assert "operand_layouts = [dense<> : tensor<0xindex>]" in text


FORMS = {
    "true": "true",
    "3 : i32": "3 : i32",
    "1.5 : f32": "1.500000e+00 : f32",
    "1.5 : f64": "1.500000e+00 : f64",
    "1.5 : bf16": "1.500000e+00 : f32",
    '"tanh"': '"tanh"',
    "bf16": '"bf16"',
    "array<i64: 1, 2>": "array<i64: 1, 2>",
    "array<i1: true, false>": "array<i8: 1, 0>",
    "dense<[1, 2]> : tensor<2xi64>": "array<i64: 1, 2>",
    "dense<7> : tensor<2xi32>": "array<i32: 7, 7>",
    "dense<[1.0, 2.5]> : tensor<2xf32>": "array<f32: 1.000000e+00, 2.500000e+00>",
    "dense<[true, false]> : tensor<2xi1>": "array<i8: 1, 0>",
    "[1 : i64, 2 : i64]": "array<i64: 1, 2>",
    "[]": "array<i64>",
    "{inner = [1.0 : f32]}": "{inner = array<f32: 1.000000e+00>}",
}
UNKNOWN = ("[[1], [2]]", '["a", "b"]', "[1 : i64, 2 : i32]", "@impl", "dense<1> : tensor<1x1xi64>")


def test_attributes_take_the_form_that_the_ffi_decodes() -> None:
    for written, expected in FORMS.items():
        text = to_custom_call(scaled(f"{{a = {written}}}"), {"acme.scale": "k"}).text
        assert f"backend_config = {{a = {expected}}}" in text, written
    for written in UNKNOWN:
        with pytest.raises(AttributeConversionError, match=r"^acme\.scale: a = .*typed FFI takes"):
            to_custom_call(scaled(f"{{a = {written}}}"), {"acme.scale": "k"})


def test_attributes_that_are_ignored_are_left_out() -> None:
    module = scaled("{a = [[1], [2]], b = 1 : i64}")
    text = to_custom_call(module, {"acme.scale": "k"}, ignored={"acme.scale": ["a"]}).text
    assert "backend_config = {b = 1 : i64}" in text


def test_targets_that_are_refused() -> None:
    targets: tuple[Any, ...] = ("a b", " a", "a\n", "", len)
    for target in targets:
        message = r"^acme\.scale: .* is not an FFI target; (write a name|`bind` takes)"
        with pytest.raises(StableHLOError, match=message):
            to_custom_call(scaled("{}"), {"acme.scale": target})


@pytest.mark.slow
def test_a_kernel_reads_its_attributes(tmp_path: Path) -> None:
    source = Path(__file__).parent / "data" / "scale_kernel.cc"
    library = tmp_path / "scale.so"
    command = ["g++", "-std=c++17", "-O1", "-shared", "-fPIC", f"-I{jax.ffi.include_dir()}"]
    subprocess.run([*command, str(source), "-o", str(library)], check=True)
    handler = ctypes.cdll.LoadLibrary(str(library)).ScaleKernel
    jax.ffi.register_ffi_target("scale_kernel", jax.ffi.pycapsule(handler), platform="cpu")
    before = scaled(ATTRIBUTES)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(
        run(to_custom_call(before, {"acme.scale": "scale_kernel"}), x), run(before, x)
    )
