"""The products of a program alone."""

from __future__ import annotations

import jax
import numpy as np
import pytest
import torch

from benchmarks.products import Product, products_of, times_of_products
from lowering.stablehlo import Module
from lowering.stablehlo.bindings import DotDimensions

TEXT = """
func.func @main(%x: tensor<128x128xf32>, %h: tensor<128x128xbf16>) -> tensor<128x128xf32> {
  %0 = func.call @twice(%x) : (tensor<128x128xf32>) -> tensor<128x128xf32>
  %1 = func.call @twice(%0) : (tensor<128x128xf32>) -> tensor<128x128xf32>
  %2 = stablehlo.dot_general %h, %h, contracting_dims = [1] x [0]
    : (tensor<128x128xbf16>, tensor<128x128xbf16>) -> tensor<128x128xbf16>
  return %1 : tensor<128x128xf32>
}
func.func private @twice(%x: tensor<128x128xf32>) -> tensor<128x128xf32> {
  %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
    : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
  return %0 : tensor<128x128xf32>
}
"""


def test_products_are_counted_where_functions_are_called() -> None:
    square = Product((128, 128), (128, 128), DotDimensions((), (), (1,), (0,)))
    assert products_of(Module.parse(TEXT)) == {square: 2}


def test_both_sides_have_a_time() -> None:
    assert all(seconds > 0 for seconds in times_of_products(Module.parse(TEXT), 0.01))


@pytest.mark.parametrize(
    ("left", "right", "dimensions", "multiplications"),
    [
        ((3, 4), (4, 5), DotDimensions((), (), (1,), (0,)), 60),
        ((4, 3), (5, 4), DotDimensions((), (), (0,), (1,)), 60),
        ((2, 3, 4), (2, 5, 4), DotDimensions((0,), (0,), (2,), (2,)), 120),
        ((3, 2, 4), (4, 5, 2), DotDimensions((1,), (2,), (2,), (0,)), 120),
        ((3, 4, 2), (2, 4), DotDimensions((), (), (2, 1), (0, 1)), 24),
    ],
)
def test_pytorch_computes_the_same(
    left: tuple[int, ...], right: tuple[int, ...], dimensions: DotDimensions, multiplications: int
) -> None:
    product = Product(left, right, dimensions)
    assert product.multiplications == multiplications
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape, np.float32) for shape in (left, right))
    contracting = dimensions.left_contracting, dimensions.right_contracting
    batch = dimensions.left_batch, dimensions.right_batch
    expected = jax.lax.dot_general(a, b, (contracting, batch))
    found = torch.einsum(product.equation, torch.from_numpy(a), torch.from_numpy(b))
    np.testing.assert_allclose(found.numpy(), np.asarray(expected), rtol=1e-5, atol=1e-6)
