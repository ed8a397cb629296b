"""The gradient of an embedding, as a gather from sums for the rows that were looked up.

A table with one row for each index holds the sums. It is small, so it stays in the cache. The
gradient of the whole embedding gathers from the table, and is zero for other rows. XLA fuses this
gather with the use of the gradient, such as an optimizer's update, so the gradient need not be in
memory. The result of a scatter must be.
"""

import jax.numpy as jnp
from jax import Array, lax


def embedding_dense_backward(
    grad_output: Array,
    indices: Array,
    num_weights: int,
    padding_idx: int,
    scale_grad_by_freq: bool,
) -> Array:
    """`aten::embedding_dense_backward` without `scale_grad_by_freq`. Sums are in f32."""
    width, count = grad_output.shape[-1], indices.size
    grads = grad_output.reshape(count, width)
    rows = indices.reshape(count)
    # As in the stock lowering, negative indices count from the end, and invalid ones are dropped.
    kept = rows != padding_idx
    rows = jnp.where(rows < 0, rows + num_weights, rows)
    kept &= (rows >= 0) & (rows < num_weights)
    rows = jnp.where(kept, rows, num_weights).astype(jnp.int32)  # dropped ones get an extra row

    def note(n: Array, owners: Array) -> Array:
        return lax.dynamic_update_slice(owners, n[None].astype(jnp.int32), (rows[n],))

    # For each row of the weight, the position of an index of this row, or `count` if there is none.
    owners = lax.fori_loop(0, count, note, jnp.full(num_weights + 1, count, jnp.int32))
    positions = owners[rows]

    def add(n: Array, table: Array) -> Array:
        owner = positions[n]
        row = lax.dynamic_slice_in_dim(table, owner, 1, 0)
        row = row + lax.dynamic_slice_in_dim(grads, n, 1, 0).astype(jnp.float32)
        return lax.dynamic_update_slice_in_dim(table, row, owner, 0)

    table = lax.fori_loop(0, count, add, jnp.zeros((count + 1, width), jnp.float32))
    return jnp.take(table, owners[:num_weights], axis=0, mode="clip").astype(grad_output.dtype)
