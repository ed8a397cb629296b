"""Statistics of calls as frozen values, and as lines of JSON. This module needs no torch."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path


@dataclass(frozen=True, slots=True)
class FallbackStats:
    """Calls that an entry did not claim, for one reason. They took the stock lowering, unless
    another entry claimed them."""

    reason: str
    operands: str
    """Types of the operands."""
    calls: int
    sites: Mapping[str, int]
    """Calls by call site, `file:line`; without XLA_COMPOSITE_LOG, of the first call only."""


@dataclass(frozen=True, slots=True)
class DeclinedStats:
    """Distinct calls that an alternative did not take, for one reason."""

    alternative: str
    reason: str
    calls: int


@dataclass(frozen=True, slots=True)
class EntryStats:
    """The calls of one entry since the process began."""

    on: bool
    calls: int
    """Calls that became composites. A call in a compiled graph counts once, when it is traced."""
    cache_hits: int
    """The number of these calls whose computation was in a cache."""
    cached: Mapping[str, int]
    """Sizes of the caches of computations, by their purpose."""
    fallbacks: tuple[FallbackStats, ...]
    """The calls that the entry did not claim; the most frequent reason first."""
    decompositions: Mapping[str, int] = field(default_factory=dict)
    """The number of distinct calls by their decomposition: `stock`, or the name of an alternative,
    and `NAME, backward` for derived gradients. Empty if no alternative was chosen."""
    declined: tuple[DeclinedStats, ...] = ()
    """The calls that the chosen alternatives did not take."""
    composite: str = ""
    """Name of the composite that the calls become."""
    named: bool = True
    """True if the entry, or its forward, was turned on by its own name, not by `all`."""


@dataclass(frozen=True, slots=True)
class CheckStats:
    """The checks of a kernel, or of an alternative, against the decomposition that it replaces."""

    composite: str
    kernel: str
    calls: int
    """Calls that were checked."""
    wrong: int
    """The number of these calls whose error is larger than the tolerance."""
    error: float | None
    """The largest error, relative to the largest value of a result; None if the kernel failed, or
    returned NaN where the decomposition returns a number."""
    tolerance: float

    def __add__(self, other: CheckStats) -> CheckStats:
        """Add up two checks of one kernel."""
        errors = self.error, other.error
        return replace(
            self,
            calls=self.calls + other.calls,
            wrong=self.wrong + other.wrong,
            error=None if None in errors else max(error for error in errors if error is not None),
            tolerance=max(self.tolerance, other.tolerance),
        )


@dataclass(frozen=True, slots=True)
class Checks:
    """The checks of all kernels; see XLA_COMPOSITE_CHECK_EVERY."""

    rows: tuple[CheckStats, ...] = ()
    seconds: float = 0.0
    """The time that the checks took."""

    def __add__(self, other: Checks) -> Checks:
        rows: dict[tuple[str, str], CheckStats] = {}
        for row in (*self.rows, *other.rows):
            key = row.composite, row.kernel
            rows[key] = rows[key] + row if key in rows else row
        return Checks(tuple(rows.values()), self.seconds + other.seconds)


@dataclass(frozen=True, slots=True)
class Stats:
    """The calls of all entries that are on, or were on, since the process began.

    Counts are approximate if several threads make calls at once.
    """

    entries: Mapping[str, EntryStats]
    """The statistics of entries, by their names in XLA_COMPOSITE_OP."""
    checks: Checks = Checks()

    @property
    def idle(self) -> tuple[str, ...]:
        """Entries that are on and have caught no call."""
        return tuple(name for name, entry in self.entries.items() if entry.on and not entry.calls)

    def idle_listed(self) -> str:
        """List the idle entries for a message: names that the user wrote, and the number of others.

        An entry is left out if the user did not name it and another entry caught calls of its
        composite, such as `bloom_gelu` beside `gelu`.
        """
        caught = {entry.composite for entry in self.entries.values() if entry.calls}
        named = [name for name in self.idle if self.entries[name].named]
        unnamed = [
            name
            for name in self.idle
            if not self.entries[name].named and self.entries[name].composite not in caught
        ]
        if not named:
            return f"{len(unnamed)} that nobody named" if unnamed else ""
        return ", ".join(named) + (f"; and {len(unnamed)} that nobody named" if unnamed else "")

    def to_json(self) -> str:
        """The statistics as one line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> Stats:
        """The statistics that `to_json` wrote."""
        from pydantic import TypeAdapter  # takes long to import, and programs only write

        return TypeAdapter(cls).validate_json(line)


def read_stats(file: Path) -> Stats:
    """Add up the statistics of all processes that wrote to a file, which may be absent."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return added_up([Stats.from_json(line) for line in lines])


def added_up(processes: Iterable[Stats]) -> Stats:
    """The statistics of several processes as those of one."""
    by_name: dict[str, list[EntryStats]] = {}
    checks = Checks()
    for process in processes:
        checks += process.checks
        for name, entry in process.entries.items():
            by_name.setdefault(name, []).append(entry)
    return Stats({name: _entry(by_name[name]) for name in sorted(by_name)}, checks)


def _entry(parts: list[EntryStats]) -> EntryStats:
    calls: Counter[tuple[str, str]] = Counter()
    sites: dict[tuple[str, str], Counter[str]] = {}
    cached: Counter[str] = Counter()
    decompositions: Counter[str] = Counter()
    declined: Counter[tuple[str, str]] = Counter()
    for part in parts:
        cached.update(part.cached)
        decompositions.update(part.decompositions)
        declined.update({(d.alternative, d.reason): d.calls for d in part.declined})
        for fallback in part.fallbacks:
            key = (fallback.reason, fallback.operands)
            calls[key] += fallback.calls
            sites.setdefault(key, Counter()).update(fallback.sites)
    return EntryStats(
        on=any(part.on for part in parts),
        calls=sum(part.calls for part in parts),
        cache_hits=sum(part.cache_hits for part in parts),
        cached=dict(cached),
        fallbacks=tuple(
            FallbackStats(*key, count, dict(sites[key])) for key, count in calls.most_common()
        ),
        decompositions=dict(decompositions),
        declined=tuple(DeclinedStats(*key, count) for key, count in declined.most_common()),
        composite=parts[0].composite,
        named=any(part.named for part in parts),
    )


@dataclass
class RecordedChecks:
    """The checks of kernels since the process began."""

    checks: Checks = field(default_factory=Checks)


recorded = RecordedChecks()
