"""Taps: the elements along an axis that each output element of a resampling reads, with weights."""

from dataclasses import dataclass
from functools import reduce
from operator import add

import jax.numpy as jnp
from jax import Array


@dataclass(frozen=True, slots=True)
class Taps:
    """The positions that each output element reads along an axis, and their weights."""

    size: int
    """The number of input elements."""
    positions: tuple[Array, ...]
    """One array (output) for each tap, of integers or of whole floating-point numbers, which are
    valid positions of the axis."""
    weights: tuple[Array, ...]
    """One array (output) for each tap."""

    def matrix(self) -> Array:
        """Return the weights as a matrix (output, input)."""
        inputs = jnp.arange(self.size, dtype=self.positions[0].dtype)
        terms = (
            jnp.where(position[:, None] == inputs, weight[:, None], 0.0)
            for position, weight in zip(self.positions, self.weights, strict=True)
        )
        return reduce(add, terms)

    def gathered(self, image: Array, dim: int) -> Array:
        """Resample an image along `dim`."""
        shape = (-1,) + (1,) * (image.ndim - 1 - dim)
        terms = (
            jnp.take(image, position.astype(jnp.int32), axis=dim, mode="clip")
            * weight.reshape(shape)
            for position, weight in zip(self.positions, self.weights, strict=True)
        )
        return reduce(add, terms)
