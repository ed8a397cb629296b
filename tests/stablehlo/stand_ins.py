"""Functions for `composites lower --bind` in the tests, imported by name."""

from typing import Any


def twice(x: Any) -> Any:
    """What acme.twice computes."""
    return x + x


NOT_A_FUNCTION = 3
