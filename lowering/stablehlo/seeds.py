"""Random seeds of a training program, from step to step."""

from typing import Any

import numpy as np

_STEP = np.uint64(0x9E3779B97F4A7C15)
"""The increment of a seed: odd, so that no seed repeats before all 2**64 seeds have occurred, and
much larger than the numbers that the operators of one step add to their seeds."""


def next_seed(seed: Any) -> Any:
    """The seed of the next step. A seed is a 64-bit array of NumPy or JAX."""
    with np.errstate(over="ignore"):
        return (seed.astype(np.uint64) + _STEP).astype(seed.dtype)
