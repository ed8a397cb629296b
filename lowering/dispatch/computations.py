"""The cache of computations that entries have lowered."""

from collections import defaultdict
from collections.abc import Callable, Hashable
from typing import Any

import torch

from lowering.dispatch.statistics import Fallback
from lowering.frontends.thread_flag import ThreadFlag

MAX_COMPUTATIONS = 1024
"""Number of distinct calls that are cached for each entry. The cache is cleared if there are
more."""


Computations = defaultdict[Hashable, dict[Hashable, Any]]
"""The computations that the entries of one installation have lowered, by owner and the key of a
call. A later installation can use them again."""


def remember(computations: dict[Hashable, Any], key: Hashable, computation: Any) -> None:
    """Cache a computation for the calls that have this key."""
    if len(computations) >= MAX_COMPUTATIONS:
        computations.clear()
    computations[key] = computation


def computed(
    computations: dict[Hashable, Any], key: Hashable, lowering: ThreadFlag, make: Callable[[], Any]
) -> Any:
    """The computation for the calls that have this key, or a Fallback. If the cache has neither,
    `make` is called while `lowering` is raised."""
    computation = computations.get(key)
    if computation is None:
        try:
            with lowering.raised():
                computation = make()
        except NotNowError as error:
            return error.fallback
        remember(computations, key, computation)
    return computation


TRANSIENT = (MemoryError, RecursionError, OSError, torch.OutOfMemoryError)
"""The exceptions of a call that can succeed later."""


class NotNowError(Exception):
    """A call takes the stock lowering this time; the cache does not remember the fallback."""

    def __init__(self, fallback: Fallback) -> None:
        super().__init__(fallback.reason)
        self.fallback = fallback
