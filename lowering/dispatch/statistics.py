"""The outcomes of calls that reached a hook: composites, or the stock lowering and why.

Counts of calls that several threads make at once are approximate.
"""

import logging
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sized
from dataclasses import dataclass, field

from composites.registry.model import Composite
from composites.user_code import call_site

log = logging.getLogger("composites")

MAX_FALLBACKS = 1024
"""Fallbacks that are counted separately for each entry. Further fallbacks are counted together."""

MAX_WRITTEN_OPERANDS = 12
"""Number of operands that a message lists. An optimizer's entry can have hundreds."""

_FURTHER = "further calls"
_NO_SITE = "a backward pass"
"""The call site of a backward: autograd runs the backward of XLA tensors in a separate thread."""


@dataclass(slots=True, eq=False)
class Fallback:
    """Calls that an entry does not claim, for one reason. They fall back to the stock lowering,
    unless another entry claims them. A cache holds a Fallback in place of a computation."""

    entry: str
    """The entry's qualified name."""
    operands: str
    """Types of the operands."""
    reason: str
    is_platform_specific: bool = False
    """True if another platform might claim the calls."""
    logged: set[str] = field(default_factory=set)
    """The call sites of the entry that have been logged."""
    calls: int = 0
    sites: dict[str, int] = field(default_factory=dict)
    """Calls by call site, `file:line`; only the first call's site unless XLA_COMPOSITE_LOG is set.
    """

    def count_call(self) -> None:
        """Count a call that is not claimed. Log it if its call site is new."""
        self.calls += 1
        if self.calls > 1 and not log.isEnabledFor(logging.INFO):
            return  # walking the stack takes longer than all the rest
        site = call_site(sys._getframe(1)) or _NO_SITE
        self.sites[site] = self.sites.get(site, 0) + 1
        if site not in self.logged:
            self.logged.add(site)
            log.info(
                "%s: %s(%s) is not claimed: %s",
                *(site, self.entry, self.operands, self.reason),
            )


@dataclass(slots=True, eq=False)
class EntryStatistics:
    """The calls of one entry since the process began."""

    entry: Composite
    caught: int = 0
    """Calls that became composites. A call in a compiled graph counts once, when it is traced."""
    lowered: int = 0
    """Computations that were lowered for these calls. The computations of the rest were cached."""
    fallbacks: dict[tuple[str, str], Fallback] = field(default_factory=dict)
    """The fallbacks by operands and reason."""
    always_on: bool = False
    """True if the entry is a function under `@composite`."""
    named: bool = False
    """True if the entry, or its forward, was turned on by its own name, not by `all`."""
    logged: set[str] = field(default_factory=set)
    """Call sites for which a message has been logged."""
    decompositions: Counter[str] = field(default_factory=Counter)
    """The number of computations by their decomposition, while alternatives are chosen."""
    declined: Counter[tuple[str, str]] = field(default_factory=Counter)
    """The number of computations that an alternative did not take, by its name and the reason."""
    caches: dict[str, Sized] = field(default_factory=dict)
    """The caches of computations of the latest installation, by purpose."""

    def decline(self, alternative: str, reason: str) -> bool:
        """Count a computation that an alternative did not take; return True for a new reason."""
        key = (alternative, reason)
        is_new = key not in self.declined
        if is_new and len(self.declined) >= MAX_FALLBACKS:
            key = (alternative, _FURTHER)
        self.declined[key] += 1
        return is_new

    def fallback(
        self, reason: str, operands: Iterable[object], *, is_platform_specific: bool = False
    ) -> Fallback:
        """The fallback for a reason, which is kept. Its calls are counted by `count_call`."""
        written = written_operands(operands)
        fallback = self.fallbacks.get((written, reason))
        if fallback is None:
            if len(self.fallbacks) >= MAX_FALLBACKS:
                written = reason = _FURTHER
            fallback = Fallback(
                entry=self.entry.qualified,
                operands=written,
                reason=reason,
                is_platform_specific=is_platform_specific,
                logged=self.logged,
            )
            fallback = self.fallbacks.setdefault((written, reason), fallback)
        return fallback


@dataclass(frozen=True, slots=True)
class Statistics:
    """The statistics of all entries of a process."""

    _entries: dict[str, EntryStatistics] = field(default_factory=dict)

    def for_entry(self, entry: Composite, *, always_on: bool = False) -> EntryStatistics:
        """The statistics of an entry, which stay when it is turned off."""
        made = EntryStatistics(entry, always_on=always_on)
        return self._entries.setdefault(entry.identity, made)

    @property
    def entries(self) -> Mapping[str, EntryStatistics]:
        return dict(self._entries)


def written_operands(operands: Iterable[object]) -> str:
    """Types of operands, as in `float32[2, 3], None`; for many operands, the first and a count.

    Values that are not tensors are written as they are.
    """
    written = [_written(operand) for operand in operands]
    if len(written) <= MAX_WRITTEN_OPERANDS:
        return ", ".join(written)
    return f"{written[0]}, and {len(written) - 1} others"


def _written(value: object) -> str:
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    if dtype is not None and isinstance(shape, tuple):  # a tensor, or an array of JAX
        return f"{str(dtype).removeprefix('torch.')}{list(shape)}"
    return repr(value) if isinstance(value, int | float | str | None) else type(value).__name__
