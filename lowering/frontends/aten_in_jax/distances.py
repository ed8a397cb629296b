"""Rules of distances between vectors."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from lowering.frontends.aten_in_jax.elementwise import as_type
from lowering.frontends.aten_in_jax.table import rule


def _gradient(grad: Any, difference: Any, distance: Any, p: float) -> Any:
    """The gradient of the norm, for each element of the difference; 0 for equal vectors."""
    grad, distance = grad[..., None], distance[..., None]
    lengths, zero = jnp.abs(difference), as_type(0, difference.dtype)
    if p == 0:
        return jnp.zeros_like(difference)
    if p == 1:
        return grad * jnp.sign(difference)
    if p == np.inf:
        return grad * jnp.sign(difference) * (lengths == distance)
    apart = distance != 0
    safe = jnp.where(apart, distance, as_type(1, distance.dtype))
    if p == 2:
        return jnp.where(apart, grad * difference / safe, zero)
    moves = apart & (lengths != 0)
    power = jnp.power(jnp.where(moves, lengths / safe, as_type(1, lengths.dtype)), p - 1)
    return jnp.where(moves, grad * jnp.sign(difference) * power, zero)


@rule("aten::_cdist_forward")
def _cdist(dtype: Any, /, a: Any, b: Any, p: float, mode: int | None = None) -> Any:
    return jnp.linalg.norm(a[..., :, None, :] - b[..., None, :, :], p, axis=-1)


@rule("aten::_cdist_backward")
def _cdist_backward(dtype: Any, /, grad: Any, a: Any, b: Any, p: float, distance: Any) -> Any:
    difference = a[..., :, None, :] - b[..., None, :, :]
    return jnp.sum(_gradient(grad, difference, distance, p), -2)


@rule("aten::_pdist_forward")
def _pdist(dtype: Any, /, x: Any, p: float = 2) -> Any:
    first, second = np.triu_indices(x.shape[0], 1)
    return jnp.linalg.norm(x[first] - x[second], p, axis=-1)


@rule("aten::_pdist_backward")
def _pdist_backward(dtype: Any, /, grad: Any, x: Any, p: float, distance: Any) -> Any:
    first, second = np.triu_indices(x.shape[0], 1)
    gradient = _gradient(grad, x[first] - x[second], distance, p)
    return jnp.zeros_like(x).at[first].add(gradient).at[second].add(-gradient)
