"""Functions for `composites lower --bind` in the tests, imported by name."""

from typing import Any


def twice(x: Any, axis: int, scale: float) -> Any:
    """acme.twice as in block.mlir, where `scale` is 2 and `axis` has no meaning."""
    return x + x


def doubled(x: Any) -> Any:
    """The same, without parameters for the attributes."""
    return x + x


def wrong(x: Any, axis: int, scale: float) -> Any:
    """Seven times too much of acme.twice."""
    return x * 7


def undecided(x: Any) -> Any:
    """A Python condition on a traced value, which jax refuses."""
    return x if x.sum() > 0 else -x


def twice_to_sixteen(x: Any, axis: int, scale: float) -> Any:
    """acme.twice, but for long vectors, where it is off by a twelfth."""
    return x * scale if x.shape[0] < 16 else x * 2.17


def a_percent_more(x: Any) -> Any:
    """A tenth of the operand, and a hundredth of it more."""
    return x * 0.101
