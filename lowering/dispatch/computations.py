"""What entries have lowered, kept for the calls that come again."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Final

MAX_COMPUTATIONS = 1024
"""Distinct calls kept for each entry; a program with more of them starts over."""


@dataclass(frozen=True, slots=True)
class Computations:
    """What the entries of one installation have lowered; it may be installed again."""

    _kept: dict[Hashable, dict[Hashable, Any]] = field(default_factory=dict)

    def of(self, *owner: Hashable) -> dict[Hashable, Any]:
        """From the key of a call to its computation, for one owner."""
        return self._kept.setdefault(owner, {})


def remember(computations: dict[Hashable, Any], key: Hashable, computation: Any) -> None:
    """Keep a computation for the calls that have this key."""
    if len(computations) >= MAX_COMPUTATIONS:
        computations.clear()
    computations[key] = computation


class _Fallback:
    """What is kept for calls that take the stock lowering."""

    def __repr__(self) -> str:
        return "FALLBACK"


FALLBACK: Final = _Fallback()
"""In the place of a computation: the call falls back to the stock lowering."""
