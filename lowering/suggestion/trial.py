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
    kept = list(entries)
    while kept:
        registry = parse_registry(
            registry_text(namespace, (), [(entry, "") for entry in kept], ()), SOURCE
        )
        catalog = Catalog((registry, *activation.catalog().registries))
        faults = _faults(registry, catalog)
        measured = None
        if not faults:
            counted = Statistics()
            try:
                with _on(registry, catalog, on, counted):
                    measured = measure()
                faults = _idle(registry, counted)
            except CompositesError as error:
                faults = _blamed(registry, str(error))
        if not faults:
            assert measured is not None
            return Tried(tuple(kept), tuple(refused), measured)
        refused += [(entry, faults[entry.name]) for entry in kept if entry.name in faults]
        kept = [entry for entry in kept if entry.name not in faults]
    return Tried((), tuple(refused), before)


@contextmanager
def _on(
    registry: Registry, catalog: Catalog, on: Sequence[Composite], counted: Statistics
) -> Iterator[None]:
    with activation.for_export(()):
        installation = activation.install_from(
            catalog, (*registry.composites, *on), counted=counted
        )
        try:
            yield
        finally:
            installation.remove()


def _faults(registry: Registry, catalog: Catalog) -> dict[str, str]:
    """Entries that cannot be turned on."""
    report = try_entries((registry,), catalog)
    return {problem.entry or "": problem.message for problem in report.problems}


def _blamed(registry: Registry, message: str) -> dict[str, str]:
    """The entry that an error names.

    Raises:
        CompositesError: it names none.
    """
    for entry in registry.composites:
        for start in (
            f"{entry.qualified} ({entry.location}): ",
            f"{entry.location}: {entry.qualified}: ",
        ):
            if message.startswith(start):
                return {entry.name: message.removeprefix(start)}
    named = [entry for entry in registry.composites if entry.qualified in message]
    if len(named) != 1:
        raise CompositesError(message)
    return {named[0].name: message}


def _idle(registry: Registry, counted: Statistics) -> dict[str, str]:
    """Entries that caught nothing, and why."""
    found: dict[str, str] = {}
    for entry in registry.composites:
        statistics = counted.of(entry)
        if not statistics.caught:
            reasons = [f.reason for f in statistics.fallbacks.values() if f.calls and f.is_missed]
            found[entry.name] = reasons[0] if reasons else "no call reaches it"
    return found
