"""The steps by which random operators advance the state of their generator, on all frontends.

Source: `LazyGraphExecutor::DeviceContextArena::GetRngSeed` of torch 2.9
(torch/csrc/lazy/core/lazy_graph_executor.cpp).
"""

from typing import Any

MULTIPLIER = 214013
INCREMENT = 2531011


def following(state: Any) -> Any:
    """The next state, before it wraps around at 64 bits: a number, or an array of integers."""
    return state * MULTIPLIER + INCREMENT
