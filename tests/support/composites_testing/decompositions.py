"""Counts of the decompositions that computations have had."""

from collections.abc import Mapping

import composites
from lowering.stats.data import EntryStats


def decompositions_since(before: Mapping[str, EntryStats], name: str) -> dict[str, int]:
    """The number of an entry's computations since `before`, by their decomposition."""
    now, then = composites.stats().entries[name].decompositions, {}
    if name in before:
        then = dict(before[name].decompositions)
    return {key: n - then.get(key, 0) for key, n in now.items() if n > then.get(key, 0)}
