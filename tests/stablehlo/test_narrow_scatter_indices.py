"""narrow_scatter_indices: the same result with i32 indices, also for those outside."""

import numpy as np
from composites_testing.passes import program, same_bits, stay

from lowering.stablehlo import Module, narrow_scatter_indices


def scatter(index: str = "i64", rows: str = "8", target: str = "8") -> Module:
    x, i, u = f"tensor<{target}x3xf32>", f"tensor<{rows}x1x{index}>", f"tensor<{rows}x3xf32>"
    body = f"""
      %r = "stablehlo.scatter"(%x, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<
        update_window_dims = [1], inserted_window_dims = [0],
        scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %1 = stablehlo.maximum %a, %b : tensor<f32>
        stablehlo.return %1 : tensor<f32>
      }}) : ({x}, {i}, {u}) -> {x}"""
    return program(body, f"%x: {x}, %i: {i}, %u: {u}", x)


def test_the_result_stays() -> None:
    random = np.random.default_rng(0)
    x, updates = (random.standard_normal((8, 3)).astype(np.float32) for _ in range(2))
    # Those that i32 would wrap to a row of the operand stay outside.
    indices = np.array([0, 7, 8, -1, 2**32, 2**32 + 1, -(2**32) + 3, 2**63 - 1])[:, None]
    text = same_bits(scatter(), narrow_scatter_indices, x, indices, updates)
    head = text.partition("stablehlo.scatter")[2]
    assert "tensor<8x1xi32>" in head
    assert "tensor<8x1xi64>" not in head


def test_others_stay() -> None:
    large = scatter(target="3000000000")
    others = [scatter("i32"), scatter("ui32"), scatter(rows="?"), large]
    stay(narrow_scatter_indices, others)
