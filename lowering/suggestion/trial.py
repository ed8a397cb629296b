"""Turning a draft on, to see what it catches. What does not work is left out, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from composites.errors import CompositesError
from composites.registry.catalog import Catalog
from composites.registry.model import Composite, Registry
from composites.registry.validation import parse_registry
from lowering import activation
from lowering.dispatch.statistics import Statistics
from lowering.suggestion.attribution import Attribution
from lowering.suggestion.drafts import Entry, registry_text
from lowering.trial import try_entries

Measure = Callable[[], Attribution]
"""Records the step with what is on."""

SOURCE = "the draft"
_NOT_REACHED = "no call reaches it (modules that have imported a function keep it)"


@dataclass(frozen=True, slots=True)
class Tried:
    """The entries of a draft that work."""

    entries: tuple[Entry, ...]
    refused: tuple[tuple[Entry, str], ...]
    """The others, and why."""
    measured: Attribution
    """The step with them."""


def tried(
    entries: Sequence[Entry],
    namespace: str,
    on: Sequence[Composite],
    measure: Measure,
    before: Attribution,
) -> Tried:
    """Turn a draft on, in addition to the entries that are `on`, until each of its entries works.

    Args:
        before: the step without the draft.
    """
    refused: list[tuple[Entry, str]] = []
    kept = tuple(entries)
    while kept:
        outcome = _outcome(kept, namespace, on, measure)
        if isinstance(outcome, Attribution):
            return Tried(kept, tuple(refused), outcome)
        refused += [(entry, outcome[entry.name]) for entry in kept if entry.name in outcome]
        kept = tuple(entry for entry in kept if entry.name not in outcome)
    return Tried((), tuple(refused), before)


def _outcome(
    entries: Sequence[Entry], namespace: str, on: Sequence[Composite], measure: Measure
) -> Attribution | dict[str, str]:
    """The step with a draft, or the names of entries that do not work, and why."""
    text = registry_text(namespace, (), [(entry, "") for entry in entries], ())
    registry = parse_registry(text, SOURCE)
    catalog = Catalog((registry, *activation.catalog().registries))
    if faults := _faults(registry, catalog):
        return faults
    counted = Statistics()
    try:
        with _on(registry, catalog, on, counted):
            measured = measure()
    except CompositesError as error:
        if faults := _blamed(registry, str(error)):
            return faults
        if len(entries) == 1:
            return {entries[0].name: str(error)}
        alone = [_outcome((entry,), namespace, on, measure) for entry in entries]
        failed = {n: why for each in alone if isinstance(each, dict) for n, why in each.items()}
        # If each works alone, the last one is too many.
        return failed or {entries[-1].name: str(error)}
    return _idle(registry, counted) or measured


@contextmanager
def _on(
    registry: Registry, catalog: Catalog, on: Sequence[Composite], counted: Statistics
) -> Iterator[None]:
    entries = (*registry.composites, *on)
    with activation.for_export(()), activation.installed(catalog, entries, counted):
        yield


def _faults(registry: Registry, catalog: Catalog) -> dict[str, str]:
    """Entries that cannot be turned on."""
    report = try_entries((registry,), catalog)
    return {problem.entry or "": problem.message for problem in report.problems}


def _blamed(registry: Registry, message: str) -> dict[str, str]:
    """The entry that an error names, if it names one."""
    for entry in registry.composites:
        for start in (
            f"{entry.qualified} ({entry.location}): ",
            f"{entry.location}: {entry.qualified}: ",
        ):
            if message.startswith(start):
                return {entry.name: message.removeprefix(start)}
    return {}


def _idle(registry: Registry, counted: Statistics) -> dict[str, str]:
    """Entries that caught nothing, and why."""
    found: dict[str, str] = {}
    for entry in registry.composites:
        statistics = counted.of(entry)
        if not statistics.caught:
            reasons = [f.reason for f in statistics.fallbacks.values() if f.calls and f.is_missed]
            found[entry.name] = reasons[0] if reasons else _NOT_REACHED
    return found
