"""Choosing what a draft has entries for, and saying why the rest has none."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from composites.errors import CompositesError, RegistryError
from composites.registry.catalog import Catalog
from composites.registry.formatting import formatted
from composites.registry.model import Composite
from composites.registry.validation import parse_registry
from lowering import activation
from lowering.dispatch.statistics import Statistics
from lowering.suggestion.attribution import Attribution, Source
from lowering.suggestion.drafts import Entry, of_function, of_operator, registry_text
from lowering.suggestion.results import Row
from lowering.trial import problem_of, try_entries

_FEWEST = 3
"""Instructions per call below which nothing is worth an entry."""
_LEAST = 0.02
"""The share of what is outside below which nothing is worth an entry."""
_AROUND = 4 * _FEWEST
"""Instructions per call below which a function that makes composites is not worth another one."""
_NOT_REACHED = "no call reaches it (modules that have imported a function keep it)"


@dataclass(slots=True, eq=False)
class Drafting:
    """A draft for what is outside composites in a step."""

    step: Attribution
    namespace: str
    missed: Mapping[str, str]
    """Why entries that are on did not claim calls, by entry."""
    refused: dict[str, str] = field(default_factory=dict)
    """Why functions and operators have no entry."""
    entries: dict[str, Entry] = field(default_factory=dict)
    """By function or operator."""
    covered: set[int] = field(default_factory=set)
    """The calls of operators that are made in functions of the draft."""

    def choose(self) -> None:
        """Choose entries for all that is worth one, and was not refused.

        Those of functions do not compete: none is called in another one, or only beside work that
        is worth an entry of its own.
        """
        self.entries, self.covered = {}, set()
        recorded = self.step.recorded
        taken: set[int] = set()  # invocations of functions that have an entry
        around: set[str] = set()  # the functions that these are called in
        for name, source in self.step.functions.items():
            free = [n for n in source.invocations if taken.isdisjoint(recorded.within(n))]
            fewest = _AROUND if source.composites else _FEWEST
            if (
                source.is_elementary
                and name not in around
                and self._is_enough(source.calls, len(free), fewest)
                and self._add(source)
            ):
                self.covered |= source.calls
                taken |= source.invocations
                outer = (o for n in source.invocations for o in recorded.within(n))
                around |= {recorded.calls[o].callee.name for o in outer}
        for source in self.step.operators.values():
            left = source.calls - self.covered
            self._add(source, self._is_enough(left, len(left), _FEWEST))

    def _is_enough(self, calls: Collection[int], count: int, fewest: int) -> bool:
        """Return whether the instructions of calls, which `count` composites would hold, are worth
        an entry."""
        left = self.step.amount_of(calls, without=self.covered).instructions
        return count > 0 and left >= max(fewest * count, _LEAST * self.step.outside.instructions)

    def _add(self, source: Source, is_enough: bool = True) -> bool:
        """Add an entry for a function or an operator, unless it is refused."""
        name = source.name
        entry = self.refused.get(name) or _caught(name, self.missed) or self._entry(source)
        if isinstance(entry, str):
            self.refused[name] = entry
        elif is_enough:
            names = {e.name for e in activation.catalog() if e.namespace == self.namespace}
            names |= {other.name for other in self.entries.values()}
            unique, number = entry.name, 2
            while unique in names:
                unique, number = f"{entry.name}_{number}", number + 1
            self.entries[name] = Entry(unique, name, entry.document, entry.remarks)
        return name in self.entries

    def _entry(self, source: Source) -> Entry | str:
        if source.is_function:
            return of_function(source.callee)
        if source.products:
            return f"has {_plural(source.products, 'product')}"
        return of_operator(source.callee)

    def text(self, title: str, after: int) -> str:
        """The draft as a registry file."""
        before = self.step.outside.instructions
        head = (
            f"A draft of `composites suggest{title and f' {title}'}`. With it, {after} of {before}",
            "instructions stay outside composites. Choose names and versions: they are promises to",
            "the compilers that read them.",
        )
        commented: list[tuple[Entry, str]] = []
        for name, entry in self.entries.items():
            source = self.step.functions.get(name, self.step.operators.get(name))
            assert source is not None
            calls = source.calls if source.is_function else source.calls - self.covered
            amount = self.step.amount_of(calls).instructions
            count = _plural(source.count if source.is_function else len(calls), "call")
            share = f"{_plural(amount, 'instruction')} ({amount / before:.0%})"
            commented.append((entry, f"{count}, {share}"))
        left_out = [
            f"{name}: {self.refused[name]}"
            for name, source in self.step.functions.items()
            if name in self.refused
            and self.step.amount_of(source.calls, without=self.covered).instructions
            >= _LEAST * before
        ]
        return formatted(registry_text(self.namespace, commented, head, left_out), "the draft")

    def rows(
        self, sources: Mapping[str, Source], step: Attribution, off: Mapping[str, str]
    ) -> tuple[Row, ...]:
        """Functions or operators with work in a step, in their order.

        Args:
            off: the entries that are off and would catch calls, by function or operator.
        """
        calls = (step.functions[n].calls for n in self.entries.keys() & step.functions.keys())
        covered = frozenset[int]().union(*calls)
        rows: list[Row] = []
        for name, source in sources.items():
            left = step.amount_of(source.calls, without=covered)
            entry = self.entries[name].name if name in self.entries else ""
            note = f"off: {off[name]}" if name in off else self.refused.get(name, "")
            if source.products and not source.is_elementary:
                note = f"has {_plural(source.products, 'product')}"
            elif name not in off and not left.instructions:
                note = "in functions of the draft"
            elif name not in off and source.is_function and source.calls & covered:
                note = "calls functions of the draft"
            elif source.composites and not note:
                note = f"makes {_plural(source.composites, 'composite')}, and little else"
            note = "" if entry else note or "too few instructions for an entry"
            amounts = (source.amount, left, source.products)
            rows.append(Row(name, source.count, *amounts, *source.callee.tensors, entry, note))
        return tuple(rows)


def trial(
    entries: Sequence[Entry],
    namespace: str,
    on: Sequence[Composite],
    measure: Callable[[], Attribution],
) -> Attribution | dict[str, str]:
    """Turn entries of a draft on, in addition to those that are `on`.

    Returns:
        The step with them, or why some do not work, by what they catch.

    Raises:
        RegistryError: no registry file can have entries of this namespace.
    """
    by_name = {entry.name: entry.caught for entry in entries}
    text = registry_text(namespace, [(entry, "") for entry in entries])
    counted = Statistics()
    try:
        registry = parse_registry(text, "the draft")
        catalog = Catalog((registry, *activation.catalog().registries))
        problems = try_entries((registry,), catalog).problems
    except RegistryError as error:
        problems = tuple(error.problems)
    if not problems:
        composites = registry.composites
        try:
            with (
                activation.for_export(()),
                activation.installed(catalog, (*composites, *on), counted),
            ):
                step = measure()
        except CompositesError as error:  # it may name an entry; else the last one is too many
            problems = (problem_of(str(error), composites[-1], composites),)
    if problems:
        refused = {by_name[p.entry]: p.message for p in problems if p.entry in by_name}
        if not refused:
            raise RegistryError(problems)
        return refused
    idle: dict[str, str] = {}
    for entry in registry.composites:
        statistics = counted.of(entry)
        if not statistics.caught:
            reasons = [f.reason for f in statistics.fallbacks.values() if f.calls and f.is_missed]
            idle[by_name[entry.name]] = reasons[0] if reasons else _NOT_REACHED
    return idle or step


def _caught(name: str, missed: Mapping[str, str]) -> str:
    """The entries of the catalog that catch a function or an operator, and why they do not claim
    its calls; empty if there are none."""
    catalog = activation.catalog()
    entries = [entry for entry in catalog if entry.op == name or name in entry.functions]
    if not entries:
        return ""
    labels = " and ".join(map(catalog.label, entries))
    reasons = [missed[entry.qualified] for entry in entries if entry.qualified in missed]
    return f"{labels} names it{f' and does not claim it: {reasons[0]}' if reasons else ''}"


def _plural(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"
