"""The gradient of an embedding, as a gather from the rows that were looked up.

A table with one row for each index holds the sums; it is small, so it stays in the cache. The
gradient of the whole embedding reads it, and is zero elsewhere. XLA merges this with the use of the
gradient, such as an optimizer's update, so the gradient need never be in memory; a scatter's result
must be.
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
    # As in the stock lowering: negative indices count from the end, others outside are dropped.
    kept = rows != padding_idx
    rows = jnp.where(rows < 0, rows + num_weights, rows)
    kept &= (rows >= 0) & (rows < num_weights)
    rows = jnp.where(kept, rows, num_weights).astype(jnp.int32)  # one more row, for what is dropped

    def note(place: Array, owners: Array) -> Array:
        return lax.dynamic_update_slice(owners, place[None].astype(jnp.int32), (rows[place],))

    # Of each row of the weight, one of the indices with this row; `count` if none has it.
    owners = lax.fori_loop(0, count, note, jnp.full(num_weights + 1, count, jnp.int32))
    places = owners[rows]

    def add(place: Array, table: Array) -> Array:
        owner = places[place]
        row = lax.dynamic_slice_in_dim(table, owner, 1, 0)
        row = row + lax.dynamic_slice_in_dim(grads, place, 1, 0).astype(jnp.float32)
        return lax.dynamic_update_slice_in_dim(table, row, owner, 0)

    table = lax.fori_loop(0, count, add, jnp.zeros((count + 1, width), jnp.float32))
    return jnp.take(table, owners[:num_weights], axis=0, mode="clip").astype(grad_output.dtype)
