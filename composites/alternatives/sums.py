"""Sums of rows, computed as products with a vector of ones.

XLA's CPU compiler adds a row number by number, because each addition must wait for the previous
one. It vectorizes a product with a vector, and fuses it with the computation of the numbers. Long
rows are added in blocks, so that errors do not grow with their length.
"""

import math

import jax.numpy as jnp
from jax import Array, lax

SHORTEST = 96
"""The smallest length of a block of a row."""
TOGETHER = 8
"""The number of rows that are added in the loop that computes them."""


def in_blocks(array: Array, dimensions: int) -> Array:
    """Reshape the last dimensions to two: blocks, and the numbers of a block. The sharding of the
    other dimensions can stay."""
    leading = array.shape[: array.ndim - dimensions]
    count = math.prod(array.shape[array.ndim - dimensions :])
    blocks = 1
    while count % (2 * blocks) == 0 and count // (2 * blocks) >= SHORTEST:
        blocks *= 2
    return array.reshape(*leading, blocks, count // blocks)


def sum_of_each(rows: Array) -> Array:
    """Sum each row, which is the last two dimensions. Dimensions are kept with size 1."""
    ones = jnp.ones(rows.shape[-1], rows.dtype)
    blocks = lax.dot_general(rows, ones, (((rows.ndim - 1,), (0,)), ((), ())))
    return blocks.sum(-1)[..., None, None]


def sum_of_rows(rows: Array) -> Array:
    """Sum all rows. Several rows are added in the loop that computes them; otherwise XLA first
    writes all rows to memory."""
    *leading, last = rows.shape[:-2]
    if last % TOGETHER == 0:
        several = rows.reshape(*leading, last // TOGETHER, TOGETHER, *rows.shape[-2:])
        parts = [several[..., number, :, :] for number in range(TOGETHER)]
        while len(parts) > 1:
            parts = [left + right for left, right in zip(parts[::2], parts[1::2], strict=True)]
        (rows,) = parts
    return rows.sum(tuple(range(rows.ndim - 2)))
