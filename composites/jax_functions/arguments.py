"""Checks of arguments that adapters share."""

from __future__ import annotations

from typing import Any

from composites.errors import UnsupportedCallError


def floats(x: Any) -> Any:
    """An array of floats. JAX computes integers and numbers in another type, PyTorch does not."""
    import numpy as np
    from jax import Array
    from jax.numpy import floating, issubdtype

    if not isinstance(x, Array | np.ndarray) or not issubdtype(x.dtype, floating):
        raise UnsupportedCallError("the input is no array of floats")
    return x


def number(value: Any, name: str) -> float:
    """A Python number, as attributes need it."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        # jax.jit makes one of each argument that is not static.
        raise UnsupportedCallError(
            f"{name} is an array, since JAX traces an argument that is given"
        )
    return float(value)
