"""unmerge_batch_dimensions: what a partitioner makes of its products."""

import json

import pytest
from composites_testing.processes import run_python

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
    devices, merged, apart = json.loads(done.succeeded().stdout.splitlines()[-1])
    assert devices == 4
    assert merged > 0
    assert apart == 0
