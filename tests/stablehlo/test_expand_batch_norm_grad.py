"""expand_batch_norm_grad: the same numbers as XLA's own operation, and nothing of it left."""

import numpy as np
import pytest
from composites_testing.passes import changed

from lowering.stablehlo import Module, expand_batch_norm_grad, run
from lowering.stablehlo.errors import UnsupportedOperationError


def batch_norm_grad(full: str, row: str, axis: int) -> Module:
    return Module.parse(
        f"""
        func.func @main(%x: {full}, %scale: {row}, %mean: {row}, %variance: {row}, %d: {full})
            -> ({full}, {row}, {row}) {{
          %0:3 = "stablehlo.batch_norm_grad"(%x, %scale, %mean, %variance, %d)
            <{{epsilon = 1.0e-5 : f32, feature_index = {axis} : i64}}>
            : ({full}, {row}, {row}, {row}, {full}) -> ({full}, {row}, {row})
          return %0#0, %0#1, %0#2 : {full}, {row}, {row}
        }}
        """
    )


@pytest.mark.parametrize(("shape", "axis"), [((4, 3, 5, 5), 1), ((2, 6), 1), ((3, 4, 2), 0)])
def test_the_numbers_are_those_of_the_operation(shape: tuple[int, ...], axis: int) -> None:
    full, row = (f"tensor<{'x'.join(map(str, s))}xf32>" for s in (shape, (shape[axis],)))
    module = batch_norm_grad(full, row, axis)
    expanded = changed(module, expand_batch_norm_grad)
    assert "batch_norm" not in expanded.text
    random = np.random.default_rng(0)
    x, d = (random.standard_normal(shape).astype(np.float32) for _ in range(2))
    scale, mean = (random.standard_normal(shape[axis]).astype(np.float32) for _ in range(2))
    variance = random.uniform(0.5, 2, shape[axis]).astype(np.float32)
    inputs = (x, scale, mean, variance, d)
    for want, got in zip(run(module, *inputs), run(expanded, *inputs), strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max())


def test_a_dynamic_shape_is_refused() -> None:
    message = r"^stablehlo\.batch_norm_grad of tensor<\?x3xf32>: refine its shape first$"
    with pytest.raises(UnsupportedOperationError, match=message):
        expand_batch_norm_grad(batch_norm_grad("tensor<?x3xf32>", "tensor<3xf32>", 1))
