"""unmerge_batch_dimensions: the form of products, their numbers, and what a partitioner makes of
them."""

import json
import re

import numpy as np
import pytest
from composites_testing.processes import run_python

from lowering.stablehlo import Module, run, unmerge_batch_dimensions

ATTENTION = """
func.func @main(%q: tensor<2x4x16x8xf32>, %k: tensor<2x4x12x8xf32>, %v: tensor<2x4x12x6xf32>)
    -> tensor<2x4x16x6xf32> {
  %0 = stablehlo.reshape %q : (tensor<2x4x16x8xf32>) -> tensor<8x16x8xf32>
  %1 = stablehlo.reshape %k : (tensor<2x4x12x8xf32>) -> tensor<8x12x8xf32>
  %2 = stablehlo.transpose %1, dims = [0, 2, 1] : (tensor<8x12x8xf32>) -> tensor<8x8x12xf32>
  %3 = stablehlo.dot_general %0, %2, batching_dims = [0] x [0], contracting_dims = [2] x [1],
    precision = [HIGHEST, HIGHEST]
    : (tensor<8x16x8xf32>, tensor<8x8x12xf32>) -> tensor<8x16x12xf32>
  %4 = stablehlo.reshape %3 : (tensor<8x16x12xf32>) -> tensor<2x4x16x12xf32>
  %5 = stablehlo.tanh %4 : tensor<2x4x16x12xf32>
  %6 = stablehlo.reshape %5 : (tensor<2x4x16x12xf32>) -> tensor<8x16x12xf32>
  %7 = stablehlo.reshape %v : (tensor<2x4x12x6xf32>) -> tensor<8x12x6xf32>
  %8 = stablehlo.dot_general %6, %7, batching_dims = [0] x [0], contracting_dims = [2] x [1]
    : (tensor<8x16x12xf32>, tensor<8x12x6xf32>) -> tensor<8x16x6xf32>
  %9 = stablehlo.reshape %8 : (tensor<8x16x6xf32>) -> tensor<2x4x16x6xf32>
  return %9 : tensor<2x4x16x6xf32>
}
"""


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def test_batch_and_heads_are_apart() -> None:
    module = Module.parse(ATTENTION)
    apart = unmerge_batch_dimensions(module)
    apart.verify()
    assert "stablehlo.reshape" not in apart.text
    assert apart.text.count("batching_dims = [0, 1] x [0, 1]") == 2
    assert apart.text.count("precision = [HIGHEST, HIGHEST]") == 1
    values = numbers(2, 4, 16, 8), numbers(2, 4, 12, 8), numbers(2, 4, 12, 6)
    np.testing.assert_allclose(run(apart, *values)[0], run(module, *values)[0], rtol=1e-6)
    assert unmerge_batch_dimensions(apart).text == apart.text


def product(before: str, merged: str) -> str:
    """A product of an operand with itself, transposed."""
    heads, rows, length = merged.split("x")
    return f"""
    func.func @main(%x: tensor<{before}xf32>) -> tensor<{heads}x{rows}x{rows}xf32> {{
      %a = stablehlo.reshape %x : (tensor<{before}xf32>) -> tensor<{merged}xf32>
      %t = stablehlo.transpose %a, dims = [0, 2, 1]
        : (tensor<{merged}xf32>) -> tensor<{heads}x{length}x{rows}xf32>
      %p = stablehlo.dot_general %a, %t, batching_dims = [0] x [0], contracting_dims = [2] x [1]
        : (tensor<{merged}xf32>, tensor<{heads}x{length}x{rows}xf32>)
        -> tensor<{heads}x{rows}x{rows}xf32>
      return %p : tensor<{heads}x{rows}x{rows}xf32>
    }}
    """


def test_three_dimensions_and_a_merged_result() -> None:
    module = Module.parse(product("2x3x4x5x6", "24x5x6"))
    apart = unmerge_batch_dimensions(module)
    apart.verify()
    assert "batching_dims = [0, 1, 2] x [0, 1, 2]" in apart.text
    assert apart.text.count("stablehlo.reshape") == 1  # of the result, which is read merged
    x = numbers(2, 3, 4, 5, 6)
    np.testing.assert_allclose(run(apart, x)[0], run(module, x)[0], rtol=1e-5, atol=1e-6)


def test_a_cast_is_followed() -> None:
    text = ATTENTION.replace(
        "%2 = stablehlo.transpose %1,",
        "%c = stablehlo.convert %1 : (tensor<8x12x8xf32>) -> tensor<8x12x8xbf16>\n"
        "%d = stablehlo.convert %c : (tensor<8x12x8xbf16>) -> tensor<8x12x8xf32>\n"
        "%2 = stablehlo.transpose %d,",
    )
    apart = unmerge_batch_dimensions(Module.parse(text))
    apart.verify()
    assert "stablehlo.reshape" not in apart.text
    assert apart.text.count("2x4x12x8xbf16") == 2


def test_what_stays() -> None:
    """A dimension of 1, a split, another order, and operands that are merged in two ways."""
    products = [product(before, "8x5x6") for before in ("1x8x5x6", "8x30", "2x4x6x5")]
    for text in (*products, ATTENTION.replace("2x4x12x8", "4x2x12x8")):
        module = Module.parse(text)
        first = re.search(r"dot_general.*", module.text)
        assert first is not None
        assert first[0] in unmerge_batch_dimensions(module).text


SHARDED = """
import dataclasses, json, re
import jax, jax.numpy as jnp, numpy as np
from jax import export
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from lowering.stablehlo import Module, bindings, unmerge_batch_dimensions

def attention(q, k, v):
    batch, heads, rows, _ = q.shape
    q, k, v = (x.reshape(batch * heads, *x.shape[2:]) for x in (q, k, v))
    weights = jax.nn.softmax(jnp.einsum("bqd,bkd->bqk", q, k).reshape(batch, heads, rows, -1))
    result = jnp.einsum("bqk,bkd->bqd", weights.reshape(batch * heads, rows, -1), v)
    return result.reshape(batch, heads, rows, -1)

operands = [jnp.ones((2, 4, 16, 8)) * n for n in (0.1, 0.2, 0.3)]
mesh = Mesh(np.array(jax.devices()), ("model",))
heads = NamedSharding(mesh, PartitionSpec(None, "model"))
merged = export.export(jax.jit(attention))(*operands)
module = Module(bindings.parse_bytes(merged.mlir_module_serialized))
apart = unmerge_batch_dimensions(module).portable()
gathers = []
for program in (merged, dataclasses.replace(merged, mlir_module_serialized=apart)):
    compiled = jax.jit(program.call, in_shardings=heads, out_shardings=heads).lower(*operands)
    gathers.append(len(re.findall(r" all-gather(?:-start)?[(]", compiled.compile().as_text())))
print(json.dumps([len(jax.devices()), *gathers]))
"""


@pytest.mark.process
def test_a_partitioner_gathers_nothing() -> None:
    done = run_python(
        SHARDED, JAX_PLATFORMS="cpu", XLA_FLAGS="--xla_force_host_platform_device_count=4"
    )
    assert done.code == 0, done.stderr[-3000:]
    devices, merged, apart = json.loads(done.stdout.splitlines()[-1])
    assert devices == 4
    assert merged > 0
    assert apart == 0
