"""The statistics of this process: as data, and at its end as a message and a line in a file."""

from __future__ import annotations

import atexit
import logging
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType

from composites import settings
from composites.errors import CompositesError
from composites.registry.model import Composite
from lowering import activation
from lowering.copies.search import Search, is_in
from lowering.dispatch.statistics import EntryStatistics, Statistics
from lowering.sample_calls import refused_words
from lowering.stats.data import DeclinedStats, EntryStats, FallbackStats, Stats

log = logging.getLogger("composites")


def stats() -> Stats:
    """What became of the calls that reached the hooks of this process."""
    return collected(activation.statistics, activation.active())


def collected(statistics: Statistics, active: Iterable[str]) -> Stats:
    """Statistics as values.

    Args:
        active: the names of entries that are on.
    """
    on, counted = set(active), _by_name(statistics)
    return Stats({name: _entry_stats(counted[name], name in on) for name in sorted(counted)})


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


def _explain(entry: Composite) -> None:
    """Log what keeps an entry from ever catching a call, if it is known."""
    if not log.isEnabledFor(logging.INFO):
        return
    for target in entry.functions:
        module = target.partition(":")[0]
        if module not in sys.modules:
            log.info(
                "%s: %s was not imported, so %s is not called%s",
                entry.qualified, module, target, _no_copy(entry),
            )  # fmt: skip
    for argument, word, said in refused_words(entry):
        place = (entry.location, entry.qualified)
        log.info("%s: %s: when: %s: %r never matches: %s", *place, argument, word, said)


def _no_copy(entry: Composite) -> str:
    """What a message says of an entry's copies."""
    if not entry.copies:
        return ""
    search = Search.of([entry])
    modules = [m for name, m in list(sys.modules.items()) if is_in(name, entry.copies)]
    loaded = (module for module in modules if isinstance(module, ModuleType))
    count = sum(1 for module in loaded for _ in search.in_module(module))
    return f"; copies in the modules of {', '.join(entry.copies)} that were imported: {count}"


def report_at_exit() -> None:
    """When the process ends, log which entries caught nothing, and write the file of
    XLA_COMPOSITE_STATS."""
    report_of_at_exit(stats, lambda: _idle(stats()))


def report_of_at_exit(find: Callable[[], Stats], explain: Callable[[], None]) -> None:
    """The same for other statistics.

    Args:
        explain: logs what keeps idle entries from catching a call, if it is known.
    """
    file = settings.STATS.read()
    atexit.register(_report, Path(file).absolute() if file else None, find, explain)


def _idle(found: Stats) -> None:
    counted = _by_name(activation.statistics)
    for name in found.idle:
        if found.entries[name].named:
            _explain(counted[name].entry)


def _report(file: Path | None, find: Callable[[], Stats], explain: Callable[[], None]) -> None:
    try:
        found = find()
    except CompositesError:  # a registry file is invalid, which has been said
        return
    listed = found.idle_listed()
    if listed:
        log.info("entries that are on and caught no call: %s", listed)
        explain()
    if file is None:
        return
    try:
        with file.open("a", encoding="utf-8") as stream:
            stream.write(found.to_json() + "\n")
    except OSError as error:
        log.error("%s: %s cannot be written: %s", settings.STATS.name, file, error.strerror)
