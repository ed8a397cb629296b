"""What entries have lowered, and whether one is lowering right now."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

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


class Lowering(threading.local):
    """Whether this thread is in a decomposition: of one entry, whose own operator or function means
    the stock one there, or of any."""

    active: bool = False

    @contextmanager
    def begun(self) -> Iterator[None]:
        """A context in which it is active."""
        before = self.active
        self.active = True
        try:
            yield
        finally:
            self.active = before
