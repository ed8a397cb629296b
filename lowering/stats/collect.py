"""The statistics of this process: as data, and at its end as a message and a line in a file."""

from __future__ import annotations

import atexit
import logging
from pathlib import Path

from composites import settings
from composites.registry.model import Composite
from lowering import activation
from lowering.dispatch.statistics import EntryStatistics
from lowering.example_calls import refused_words
from lowering.stats.data import EntryStats, FallbackStats, Stats

log = logging.getLogger("composites")


def stats() -> Stats:
    """What became of the calls that reached the hooks of this process."""
    on, counted = set(activation.active()), _by_name()
    return Stats({name: _entry_stats(counted[name], name in on) for name in sorted(counted)})


def _by_name() -> dict[str, EntryStatistics]:
    catalog = activation.catalog()
    return {
        counted.entry.qualified if counted.always_on else catalog.label(counted.entry): counted
        for counted in activation.statistics.entries.values()
    }


def _entry_stats(counted: EntryStatistics, on: bool) -> EntryStats:
    fallbacks = [
        FallbackStats(f.reason, f.operands, f.calls, dict(f.sites))
        for f in list(counted.fallbacks.values())
        if f.calls
    ]
    return EntryStats(
        on=on or counted.always_on,
        calls=counted.caught,
        cache_hits=max(counted.caught - counted.lowered, 0),
        cached={use: len(cache) for use, cache in counted.caches.items()},
        fallbacks=tuple(sorted(fallbacks, key=lambda f: -f.calls)),
    )


def _explain(entry: Composite) -> None:
    """Log what keeps an entry from ever catching a call, if it is known."""
    if entry.op is None or not log.isEnabledFor(logging.INFO):
        return
    for argument, word, said in refused_words(entry):
        place = (entry.location, entry.qualified)
        log.info("%s: %s: when: %s: %r never matches: %s", *place, argument, word, said)


def report_at_exit() -> None:
    """When the process ends, log which entries caught nothing, and write the file of
    XLA_COMPOSITE_STATS."""
    atexit.register(_report)


def _report() -> None:
    found = stats()
    if found.idle:
        log.info("entries that are on and caught no call: %s", ", ".join(found.idle))
        counted = _by_name()
        for name in found.idle:
            _explain(counted[name].entry)
    file = settings.STATS.read()
    if not file:
        return
    try:
        with Path(file).open("a", encoding="utf-8") as stream:
            stream.write(found.to_json() + "\n")
    except OSError as error:
        log.error("%s: %s cannot be written: %s", settings.STATS.name, file, error.strerror)
