"""The statistics of this process: as data, and at its end as a message and a line in a file."""

import atexit
import logging
from collections.abc import Callable, Iterable
from pathlib import Path

from composites import settings
from composites.errors import CompositesError
from lowering import activation
from lowering.dispatch.statistics import EntryStatistics, Statistics
from lowering.stats.data import DeclinedStats, EntryStats, FallbackStats, Stats, recorded

log = logging.getLogger("composites")


def stats() -> Stats:
    """The outcomes of the calls that reached the hooks of this process."""
    return collected(activation.statistics, activation.active())


def collected(statistics: Statistics, active: Iterable[str]) -> Stats:
    """Statistics as values.

    Args:
        active: the names of entries that are on.
    """
    on, counted = set(active), _by_name(statistics)
    entries = {name: _entry_stats(counted[name], name in on) for name in sorted(counted)}
    return Stats(entries, recorded.checks)


def _by_name(statistics: Statistics) -> dict[str, EntryStatistics]:
    counted = statistics.entries
    if not counted:
        return {}
    catalog = activation.catalog()
    return {
        counted.entry.qualified if counted.always_on else catalog.label(counted.entry): counted
        for counted in counted.values()
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
        decompositions=dict(counted.decompositions),
        declined=tuple(DeclinedStats(*key, n) for key, n in list(counted.declined.items())),
        composite=counted.entry.composite_name,
        named=counted.named or counted.always_on,
    )


def report_at_exit(read: Callable[[], Stats] = stats) -> None:
    """When the process ends, log which entries caught nothing, and write the file of
    XLA_COMPOSITE_STATS."""
    file = settings.STATS.read()
    atexit.register(_report, Path(file).absolute() if file else None, read)


def _report(file: Path | None, read: Callable[[], Stats]) -> None:
    try:
        counted = read()
    except CompositesError:  # an invalid registry file, which has been reported
        return
    listed = counted.idle_listed()
    if listed:
        log.info("entries that are on and caught no call: %s", listed)
    if file is None:
        return
    try:
        with file.open("a", encoding="utf-8") as stream:
            stream.write(counted.to_json() + "\n")
    except OSError as error:
        log.error("%s: %s cannot be written: %s", settings.STATS.name, file, error.strerror)
