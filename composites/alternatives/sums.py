"""Sums of rows that are products with a vector of ones or of weights.

XLA's CPU compiler adds up a row number by number, because each sum must wait for the one before it.
It computes a product with a vector in lanes of a register, in the loop of the added numbers. Long
rows are added up in blocks, so that errors do not grow with their length.
"""

import math

import jax.numpy as jnp
from jax import Array, lax

SHORTEST = 96
"""A block of a row is at least as long."""
TOGETHER = 8
"""The number of rows that are added up where they are computed."""


def in_blocks(array: Array, dimensions: int) -> Array:
    """The last dimensions as two: blocks, and the numbers of each. The others can be sharded as
    they were."""
    leading = array.shape[: array.ndim - dimensions]
    count = math.prod(array.shape[array.ndim - dimensions :])
    blocks = 1
    while count % (2 * blocks) == 0 and count // (2 * blocks) >= SHORTEST:
        blocks *= 2
    return array.reshape(*leading, blocks, count // blocks)


def sum_of_each(rows: Array) -> Array:
    """The sum of each row, whose numbers are the last two dimensions. Its dimensions stay."""
    ones = jnp.ones(rows.shape[-1], rows.dtype)
    blocks = lax.dot_general(rows, ones, (((rows.ndim - 1,), (0,)), ((), ())))
    return blocks.sum(-1)[..., None, None]


def sum_of_rows(rows: Array) -> Array:
    """The sum of all rows. Some are added in the loop that computes them, or else XLA writes all of
    them to memory first."""
    *leading, last = rows.shape[:-2]
    if last % TOGETHER == 0:
        several = rows.reshape(*leading, last // TOGETHER, TOGETHER, *rows.shape[-2:])
        parts = [several[..., number, :, :] for number in range(TOGETHER)]
        while len(parts) > 1:
            parts = [one + other for one, other in zip(parts[::2], parts[1::2], strict=True)]
        (rows,) = parts
    return rows.sum(tuple(range(rows.ndim - 2)))
