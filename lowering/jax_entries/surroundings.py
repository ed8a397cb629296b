"""What a call means beside its arguments: the settings of JAX, and the entries that are on.

A decomposition that is written in JAX calls functions that entries may catch, so that what is on
decides which composites are inside it.
"""

from __future__ import annotations

from collections.abc import Hashable

from lowering.frontends.jax.internals import settings_of_traces


class _On:
    """Stands for what is on in this process: another object after each change."""

    mark: object = object()


_on = _On()


def change_what_is_on() -> None:
    """Say that other entries are on from now."""
    _on.mark = object()


def surroundings() -> Hashable:
    """What a call means beside its arguments, to be compared with that of other calls."""
    return settings_of_traces(), _on.mark
