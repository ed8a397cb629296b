"""Choosing what a draft has entries for, and saying why the rest has none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from composites.registry.formatting import formatted
from composites.registry.model import Composite, Tensor
from lowering import activation
from lowering.suggestion.attribution import Amount, Attribution, FunctionWork
from lowering.suggestion.drafts import (
    Entry,
    Names,
    Refused,
    checked,
    of_function,
    of_operator,
    registry_text,
)
from lowering.suggestion.functions import LOSS, Function
from lowering.suggestion.ranking import FEWEST, Candidate, chosen, is_enough, ranked
from lowering.suggestion.results import FunctionRow, Known, OperatorRow

_LITTLE = "too few instructions for an entry"


@dataclass(slots=True, eq=False)
class Drafting:
    """A draft for what is outside composites in a step."""

    found: Attribution
    namespace: str
    missed: Mapping[str, str]
    """Why entries that are on did not claim calls, by entry."""
    _refused: dict[str, str] = field(default_factory=dict)
    """Reasons, by function or operator."""
    _entries: dict[str, Entry] = field(default_factory=dict)
    """By function or operator."""
    _covered: set[int] = field(default_factory=set)
    """The calls of operators that are made in functions of the draft."""

    def refuse(self, entry: Entry, reason: str) -> None:
        """Have no entry for what this one catches."""
        self._refused[entry.caught] = reason.partition("\n")[0]

    def entries(self) -> tuple[Entry, ...]:
        """Entries for all that is worth one, and was not refused."""
        names = Names({e.name for e in activation.catalog() if e.namespace == self.namespace})
        self._entries, self._covered = {}, set()
        made: dict[str, Entry] = {}

        def accepts(candidate: Candidate) -> bool:
            target = candidate.function.target
            if target in self._refused:
                return False
            if catching := _naming(target):
                reasons = [self.missed[e.qualified] for e in catching if e.qualified in self.missed]
                why = f" and does not claim it: {reasons[0]}" if reasons else ""
                self._refused[target] = f"{_label(catching)} names it{why}"
                return False
            entry = self._accepted(target, of_function(self._function(candidate.function)))
            if entry is not None:
                made[target] = entry
            return entry is not None

        for candidate in chosen(self._candidates(), self.found, accepts):
            self._add(made[candidate.function.target], names)
            self._covered |= candidate.function.calls
        for operator, calls in self._by_work():
            entry = self._operator_entry(operator)
            left = [n for n in calls if n not in self._covered]
            amount = self.found.of(left).instructions
            if entry is not None and left and is_enough(amount, len(left), self.found, FEWEST):
                self._add(entry, names)
        return tuple(self._entries.values())

    @property
    def predicted(self) -> int:
        """The instructions that the draft would leave outside."""
        of_operators = self.found.operators()
        caught = set(self._covered)
        for operator in self._entries.keys() & of_operators.keys():
            caught.update(of_operators[operator])
        return self.found.outside.instructions - self.found.of(caught).instructions

    def seen_in(self, found: Attribution, known: Sequence[Known]) -> Drafting:
        """The same draft for a step in which the entries that are `known` are off."""
        functions = found.functions()
        caught = self._entries.keys() & functions.keys()
        covered = {n for target in caught for n in functions[target].calls}
        off: dict[str, list[str]] = {}
        for entry in known:
            for name in (*entry.operators, *entry.functions):
                off.setdefault(name, []).append(entry.entry)
        notes = {name: f"off: {', '.join(labels)}" for name, labels in off.items()}
        refused = self._refused | notes
        return Drafting(found, self.namespace, self.missed, refused, self._entries, covered)

    def functions(self) -> tuple[FunctionRow, ...]:
        """All functions with work, the best candidates for an entry first."""
        return tuple(map(self._function_row, ranked(self._candidates())))

    def operators(self) -> tuple[OperatorRow, ...]:
        """All operators with work, those with most of it first."""
        rows: list[OperatorRow] = []
        for operator, calls in self._by_work():
            left = self.found.of(calls, without=self._covered)
            entry = self._entries.get(operator)
            note = self._refused.get(operator, "")
            if entry is None and not left.instructions:
                note = "in functions of the draft"
            elif entry is None and not note:
                note = _LITTLE
            name = "" if entry is None else entry.name
            rows.append(OperatorRow(operator, len(calls), self.found.of(calls), left, name, note))
        return tuple(rows)

    def text(self, title: str, after: int) -> str:
        """The draft as a registry file."""
        before = self.found.outside.instructions
        head = (
            f"A draft of `composites suggest{title and f' {title}'}`. With it, {after} of {before}",
            "instructions stay outside composites. Choose names and versions: they are promises to",
            "the compilers that read them.",
        )
        of_operators, of_functions = self.found.operators(), self.found.functions()
        commented: list[tuple[Entry, str]] = []
        for caught, entry in self._entries.items():
            if caught in of_functions:
                function = of_functions[caught]
                amount, calls = self.found.of(function.calls), len(function.invocations)
            else:
                numbers = [n for n in of_operators[caught] if n not in self._covered]
                amount, calls = self.found.of(numbers), len(numbers)
            commented.append((entry, f"{_plural(calls, 'call')}, {_share(amount, before)}"))
        left_out = [f"{caught}: {reason}" for caught, reason in self._worth_saying()]
        return formatted(registry_text(self.namespace, head, commented, left_out), "the draft")

    def _worth_saying(self) -> Iterator[tuple[str, str]]:
        """Why what has much work outside is not in the draft."""
        least = self.found.outside.instructions / 50
        for candidate in ranked(self._candidates()):
            target = candidate.function.target
            left = self.found.of(candidate.function.calls, without=self._covered)
            if target in self._refused and left.instructions >= least:
                yield target, self._refused[target]

    def _operator_entry(self, operator: str) -> Entry | None:
        if operator in self._refused:
            return None
        if catching := _of_operator(operator):
            reasons = [self.missed[e.qualified] for e in catching if e.qualified in self.missed]
            why = f": {reasons[0]}" if reasons else ""
            self._refused[operator] = f"{_label(catching)} does not claim it{why}"
            return None
        if any(self.found.products.get(n) for n in self.found.operators()[operator]):
            self._refused[operator] = "it is a product"
            return None
        calls = self.found.recorded.calls
        drafted = of_operator(operator, calls.overloads[operator], calls.examples[operator])
        return self._accepted(operator, drafted)

    def _accepted(self, caught: str, drafted: Entry | Refused) -> Entry | None:
        if isinstance(drafted, Entry):
            drafted = checked(drafted, self.namespace)
        if isinstance(drafted, Refused):
            self._refused[caught] = drafted.reason
            return None
        return drafted

    def _add(self, entry: Entry, names: Names) -> None:
        named = Entry(names.give(entry.name), entry.caught, entry.document, entry.remarks)
        self._entries[entry.caught] = named

    def _candidates(self) -> list[Candidate]:
        return [
            Candidate(work, self.found.of(work.calls), sum(_tensors(self._function(work))))
            for target, work in self.found.functions().items()
            if target != LOSS and self.found.of(work.calls).instructions
        ]

    def _by_work(self) -> list[tuple[str, tuple[int, ...]]]:
        found = self.found.operators().items()
        return sorted(found, key=lambda item: (-self.found.of(item[1]).instructions, item[0]))

    def _function(self, work: FunctionWork) -> Function:
        invocations = self.found.recorded.calls.functions.invocations
        return invocations[min(work.invocations)].function

    def _function_row(self, candidate: Candidate) -> FunctionRow:
        work = candidate.function
        taken, returned = _tensors(self._function(work))
        entry = self._entries.get(work.target)
        return FunctionRow(
            target=work.target,
            calls=len(work.invocations),
            amount=candidate.amount,
            products=work.products,
            tensors_in=taken,
            tensors_out=returned,
            entry="" if entry is None else entry.name,
            note="" if entry is not None else self._why_not(candidate),
        )

    def _why_not(self, candidate: Candidate) -> str:
        work = candidate.function
        if self._refused.get(work.target, "").startswith("off: ") and candidate.is_elementary:
            return self._refused[work.target]
        if work.products and not candidate.is_elementary:
            return f"has {_plural(work.products, 'product')}"
        if not self.found.of(work.calls, without=self._covered).instructions:
            return "in functions of the draft"
        if work.calls & self._covered:
            return "calls functions of the draft"
        if work.target in self._refused:
            return self._refused[work.target]
        if work.composites:
            return f"makes {_plural(work.composites, 'composite')}, and little else"
        return _LITTLE


def _tensors(function: Function) -> tuple[int, int]:
    """How many tensors a function takes, with those that it reads of objects, and returns."""
    read = [value for reads in function.objects.values() for value in reads.values.values()]
    taken = sum(isinstance(value, Tensor) for value in (*function.arguments.values(), *read))
    return taken, 0 if function.returned is None else function.returned.tensors


def _naming(target: str) -> list[Composite]:
    return [entry for entry in activation.catalog() if target in entry.functions]


def _of_operator(operator: str) -> list[Composite]:
    return [entry for entry in activation.catalog() if entry.op == operator]


def _label(entries: list[Composite]) -> str:
    return " and ".join(activation.catalog().label(entry) for entry in entries)


def _plural(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _share(amount: Amount, whole: int) -> str:
    return f"{_plural(amount.instructions, 'instruction')} ({amount.instructions / whole:.0%})"
