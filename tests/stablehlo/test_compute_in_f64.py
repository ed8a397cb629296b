"""compute_in_f64: numbers far more precise than the module's, for all kinds of operations."""

import ml_dtypes
import numpy as np
import pytest
from composites_testing.golden import read_cases
from composites_testing.passes import DATA

from lowering.stablehlo import Module, UnsupportedOperationError, compute_in_f64, run

PROGRAMS = read_cases(DATA / "in_f64.txt")


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
    actual, count = run(compute_in_f64(module), x)
    factor = np.asarray([0.1, 0.2], np.float32).astype(np.float64)  # as the constants are
    np.testing.assert_allclose(actual, x.astype(np.float64).sum(0) * factor**3, rtol=1e-14)
    assert (count.dtype, int(count)) == (np.int32, 3)


def test_products_and_complex_numbers() -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((2, 3)).astype(np.float32)
    z = (random.standard_normal((2, 2)) + 1j).astype(np.complex64)
    (value,) = run(compute_in_f64(Module.parse(PROGRAMS["products and complex numbers"][""])), x, z)
    product = x.astype(np.float64) @ x.T.astype(np.float64)
    np.testing.assert_allclose(value, (product + 1j * product) * z, rtol=1e-14)


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
