"""The surroundings of a call, besides its arguments: settings of JAX, and entries that are on.

A decomposition that is written in JAX calls functions that entries may catch, so the entries that
are on decide which composites are inside it. The decomposition of a caught call has no composites
inside.
"""

from collections.abc import Hashable
from contextlib import AbstractContextManager

from composites.contexts import with_attributes
from lowering.frontends.jax.internals import settings_of_traces
from lowering.frontends.thread_flag import ThreadFlag

_ON: list[tuple[str, ...]] = [()]
"""The entries whose calls are composites in this process, by identity."""


_inside = ThreadFlag()
"""Raised in threads that trace or run a decomposition that has no composites inside."""


def change_what_is_on(identities: tuple[str, ...]) -> None:
    """Set the entries that are on from now on."""
    _ON[:] = [identities]


def without_composites() -> AbstractContextManager[None]:
    """A context in which no function is caught in this thread."""
    return with_attributes(_inside, active=True)


def has_no_composites() -> bool:
    """Return whether this thread is in a block of `without_composites`."""
    return _inside.active


def surroundings() -> Hashable:
    """A key of the settings that a call depends on besides its arguments, to compare calls."""
    return settings_of_traces(), *_ON, has_no_composites()
