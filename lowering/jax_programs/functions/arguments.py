"""Checks of arguments that adapters share."""

import math
from typing import Any

from composites.errors import UnsupportedCallError


def is_array(x: Any) -> bool:
    """Return whether a value is an array of JAX or numpy."""
    import numpy as np
    from jax import Array

    return isinstance(x, Array | np.ndarray)


def has_floats(x: Any) -> bool:
    """Return whether a value is an array of floats."""
    from jax.numpy import floating, issubdtype

    return is_array(x) and bool(issubdtype(x.dtype, floating))


def floats(x: Any) -> Any:
    """Check for an array of floats. JAX converts integers and numbers, PyTorch does not."""
    if not has_floats(x):
        raise UnsupportedCallError("the input is not an array of floats")
    return x


def number(value: Any, name: str) -> float:
    """Check that a value is a Python number, which attributes need, and return it as a float."""
    if type(value) not in (int, float):
        # jax.jit makes an array of each argument that is not static, and numbers of numpy have
        # their own type.
        raise UnsupportedCallError(f"{name} is an array, or not a plain Python number")
    if math.isnan(value):
        raise UnsupportedCallError(f"{name} is not a number")
    return float(value)
