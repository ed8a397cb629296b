"""Random seeds of a training program, from step to step."""

from typing import Any

import numpy as np

_STEP = np.uint64(0x9E3779B97F4A7C15)
"""The number that a seed grows by: odd, so that no seed comes twice before all 2**64 did, and far
from what the operators of one step add to theirs."""


def next_seed(seed: Any) -> Any:
    """The seed of the step after the one with this seed, a 64-bit array of NumPy or JAX."""
    with np.errstate(over="ignore"):
        return (seed.astype(np.uint64) + _STEP).astype(seed.dtype)
