"""Embeddings of flax, in both of its interfaces."""

from typing import Any

from composites.errors import UnsupportedCallError


def _rows(weight: Any, indices: Any) -> Any:
    import jax.numpy as jnp

    return jnp.take(weight, indices, axis=0)


def embed(composite: Any, self: Any, inputs: Any, out_sharding: Any = None) -> Any:
    """`Embed.__call__` of flax.linen and flax.nnx. The weight is converted to the type of the
    result, as in the module."""
    import jax
    import jax.numpy as jnp
    from flax import linen

    if out_sharding is not None:
        raise UnsupportedCallError("the result has a sharding of its own")
    if not isinstance(inputs, jax.Array) or inputs.dtype not in (jnp.int32, jnp.int64):
        raise UnsupportedCallError("the indices are not an array of i32 or i64, as in PyTorch")
    if self.num_embeddings == 1:
        raise UnsupportedCallError("there is one row, which flax broadcasts")
    if isinstance(self, linen.Module):
        (weight,) = self.promote_dtype(self.embedding, dtype=self.dtype, inexact=False)
    else:
        (weight,) = self.promote_dtype((self.embedding[...],), dtype=self.dtype, inexact=False)
    return composite(weight, inputs, decomposition=_rows)
