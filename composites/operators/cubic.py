"""Cubic convolution, the kernel of bicubic interpolation."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from jax import Array
    from torch import Tensor

A = TypeVar("A", "Array", "Tensor")

_A = -0.75
"""The only parameter of the kernel; PyTorch's value."""


def cubic_weights(t: A) -> tuple[A, A, A, A]:
    """Weights of the four neighbours at distances t + 1, t, 1 - t and 2 - t, 0 <= t <= 1.

    Keys' kernel ("Cubic convolution interpolation for digital image processing", 1981):

        (A + 2)|x|³ - (A + 3)|x|² + 1     for |x| <= 1
        A|x|³ - 5A|x|² + 8A|x| - 4A       for 1 < |x| < 2
    """
    return _outer(t + 1), _inner(t), _inner(1 - t), _outer(2 - t)


def cubic_slopes(t: A) -> tuple[A, A, A, A]:
    """Derivatives of `cubic_weights` with respect to t."""
    return _outer_slope(t + 1), _inner_slope(t), -_inner_slope(1 - t), -_outer_slope(2 - t)


def _inner(x: A) -> A:
    return ((_A + 2) * x - (_A + 3)) * x * x + 1


def _outer(x: A) -> A:
    return ((_A * x - 5 * _A) * x + 8 * _A) * x - 4 * _A


def _inner_slope(x: A) -> A:
    return (3 * (_A + 2) * x - 2 * (_A + 3)) * x


def _outer_slope(x: A) -> A:
    return (3 * _A * x - 10 * _A) * x + 8 * _A
