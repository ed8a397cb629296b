"""compute_in_f64: numbers far more precise than the module's, for all kinds of operations."""

import ml_dtypes
import numpy as np
import pytest
from composites_testing.golden import read_cases
from composites_testing.passes import DATA, load, random_inputs

from lowering.stablehlo import (
    Module,
    UnsupportedOperationError,
    clean,
    compile_module,
    compute_in_f64,
    run,
)

PROGRAMS = read_cases(DATA / "in_f64.txt")


def test_a_training_step_agrees_with_its_f32() -> None:
    module = clean(load("transformer_step_torch_xla_2_9"))
    narrow, wide = compile_module(module), compile_module(compute_in_f64(module))
    assert wide.inputs == narrow.inputs
    assert {type_.rpartition("x")[2] for type_ in narrow.outputs if "x" in type_} == {"f32>"}
    assert all("f64>" in type_ for type_ in wide.outputs)
    arrays = random_inputs(narrow.inputs)
    for one, other in zip(narrow(*arrays), wide(*arrays), strict=True):
        difference = np.abs(one - other).max() / np.abs(other).max()
        # What f32 loses in a whole step depends on XLA's release: 1.004e-5 with jax 0.12.
        assert 0 < difference < 1e-4


def test_it_is_f64_to_the_last_bits() -> None:
    module = Module.parse(PROGRAMS["to the last bits"][""])
    wide = compute_in_f64(module)
    assert "reduce_precision" not in wide.text
    x = np.asarray([0.1, 0.5, 2.0], ml_dtypes.bfloat16)
    np.testing.assert_allclose(run(wide, x)[0], np.tanh(x.astype(np.float64)), rtol=1e-15)
    assert np.abs(run(module, x)[0] - np.tanh(x.astype(np.float64))).max() > 1e-3


def test_regions_constants_and_integers() -> None:
    module = Module.parse(PROGRAMS["regions, constants and integers"][""])
    x = np.random.default_rng(0).standard_normal((4, 2)).astype(np.float32)
    got, count = run(compute_in_f64(module), x)
    factor = np.asarray([0.1, 0.2], np.float32).astype(np.float64)  # as the constants are
    np.testing.assert_allclose(got, x.astype(np.float64).sum(0) * factor**3, rtol=1e-14)
    assert (count.dtype, int(count)) == (np.int32, 3)


def test_products_and_complex_numbers() -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((2, 3)).astype(np.float32)
    z = (random.standard_normal((2, 2)) + 1j).astype(np.complex64)
    (got,) = run(compute_in_f64(Module.parse(PROGRAMS["products and complex numbers"][""])), x, z)
    product = x.astype(np.float64) @ x.T.astype(np.float64)
    np.testing.assert_allclose(got, (product + 1j * product) * z, rtol=1e-14)


def test_composites_and_calls_are_inlined() -> None:
    wide = compute_in_f64(load("block"))
    assert "composite" not in wide.text
    assert wide.text.count("func.func") == 1


def test_what_has_no_form_in_f64_is_named() -> None:
    types = "(%x: tensor<2xf32>) -> tensor<2xi32>"
    for operation, message in (
        ("bitcast_convert %x", "stablehlo.bitcast_convert: it reads the bits of floats"),
        ("custom_call @acme(%x)", "custom call @acme: only its target knows its types"),
    ):
        body = f"%0 = stablehlo.{operation} : (tensor<2xf32>) -> tensor<2xi32>"
        text = f"func.func @main{types} {{ {body} return %0 : tensor<2xi32> }}"
        with pytest.raises(UnsupportedOperationError, match=message):
            compute_in_f64(Module.parse(text))
    with pytest.raises(UnsupportedOperationError, match="no function @main"):
        compute_in_f64(Module.parse("func.func @f() { return }"))
