"""Choosing the entries of a draft, trying them, and explaining why other functions have none."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any

import yaml

from composites.allowlist import resolve
from composites.errors import CompositesError
from composites.registry.catalog import Catalog
from composites.registry.formatting import formatted
from composites.registry.model import Composite, Tensor
from composites.registry.validation import parse_registry
from lowering import activation
from lowering.dispatch.statistics import Statistics
from lowering.suggestion.callees import Callee, Other
from lowering.suggestion.recording import StepRecord
from lowering.trial import make_problem

_FEWEST = 3
"""Instructions per call, and per composite in it, below which a function is not worth an entry."""
_NAMESPACE = "draft"
_LEAST = 0.02
"""The smallest share of the outside instructions that is worth an entry."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A Python function, with its forward and backward, or an operator, by its overload."""

    name: str
    """`package.module:Class.method` or `aten::mean.dim`."""
    calls: int
    """The number of calls; for an operator, of calls with work."""
    instructions: int
    """The number of instructions outside composites, in the function and in its callees."""
    tensors_in: int
    """The number of tensors that a function reads. For operators, it and `tensors_out` are 0."""
    tensors_out: int
    entry: str
    """The name of the draft's entry that catches it; empty if there is none."""
    note: str
    """The reason why the draft has no entry for it; empty if it has too few instructions."""


@dataclass(slots=True, eq=False)
class Drafting:
    """A draft for the part of a step outside composites."""

    step: StepRecord
    refused: dict[str, str] = field(default_factory=dict)
    """The reasons why functions have no entry."""
    entries: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The entries by name, as mappings for a registry file."""
    covered: set[int] = field(default_factory=set)
    """The calls of operators that are made in functions of the draft."""

    def draft(self, on: tuple[str, ...], measure: Callable[[], StepRecord]) -> StepRecord | None:
        """Choose entries until all of them work, in addition to the entries that are `on`.

        Returns:
            The step with the entries; None if no entry works.
        """
        active = resolve(on, activation.catalog()) if on else ()
        self._choose()
        while self.entries:
            outcome = self._trial(active, measure)
            if isinstance(outcome, StepRecord):
                return outcome
            # Other functions may have entries instead of those that do not work.
            self.refused |= outcome
            self._choose()
        return None

    def _choose(self) -> None:
        """Choose entries for all functions that are worth one, and were not refused.

        No chosen function is called in another one, unless the rest of that one is worth an entry
        too.
        """
        self.entries, self.covered = {}, set()
        claimed: set[int] = set()  # invocations of chosen functions
        around: set[Callee] = set()  # the callers of chosen functions
        for function in self.step.worked(functions=True):
            within = self.step.within
            free = [n for n in function.invocations if claimed.isdisjoint(within(n))]
            unclaimed = sum(self.step.work[number] for number in function.calls - self.covered)
            fewest = _FEWEST * (len(free) + function.composites)
            if (
                free
                and function.is_elementary
                and function not in around
                and unclaimed >= max(fewest, _LEAST * self.step.outside)
                and self._add(function)
            ):
                self.covered |= function.calls
                claimed |= function.invocations
                outer = (o for n in function.invocations for o in within(n))
                around |= {self.step.calls[o].callee for o in outer}

    def _add(self, function: Callee) -> bool:
        """Add an entry for a function, unless it is refused."""
        name = function.name
        entry = self.refused.get(name) or _named(name) or _draft_entry(function)
        if isinstance(entry, str):
            self.refused[name] = entry
            return False
        used = {e.name for e in activation.catalog() if e.namespace == _NAMESPACE}
        numbered = (f"{_name_for(name)}_{number}" for number in count(2))
        names = (n for n in chain([_name_for(name)], numbered) if n not in {*used, *self.entries})
        self.entries[next(names)] = entry
        return True

    def _trial(
        self, active: tuple[Composite, ...], measure: Callable[[], StepRecord]
    ) -> StepRecord | dict[str, str]:
        """Turn the entries on, in addition to the `active` ones.

        Returns:
            The step with the entries; or the reasons why entries do not work, by function.
        """
        functions = {name: entry["function"] for name, entry in self.entries.items()}
        registry = parse_registry(self._registry_text(), "the draft")
        tried, counted = registry.composites, Statistics()
        catalog = Catalog((registry, *activation.catalog().registries))
        try:
            with (
                activation.for_export(()),
                activation.installed(catalog, (*tried, *active), counted),
            ):
                step = measure()
        except CompositesError as error:  # it may name an entry; else drop the last
            problem = make_problem(str(error), tried[-1], tried)
            return {functions[problem.entry or tried[-1].name]: problem.message.partition("\n")[0]}
        idle: dict[str, str] = {}
        for entry in tried:
            statistics = counted.for_entry(entry)
            if not statistics.caught:
                missed = (f.reason for f in statistics.fallbacks.values())
                idle[functions[entry.name]] = next(missed, "no call reaches it")
        return idle or step

    def text(self, after: StepRecord) -> str:
        """The draft as a registry file."""
        head = (
            f"# A draft of `composites suggest`. With it, {after.outside} of {self.step.outside}"
            " instructions stay outside\n# composites. Choose names and versions: they are promises"
            " to the compilers that read them.\n"
        )
        return formatted(head + self._registry_text(), "the draft")

    def _registry_text(self) -> str:
        document = {"schema": 1, "namespace": _NAMESPACE, "composites": self.entries}
        return yaml.safe_dump(document, sort_keys=False, default_flow_style=None)

    def row(self, callee: Callee) -> Suggestion:
        """A function or an operator, with its entry, or the reason why there is none."""
        name = callee.name
        entry = next((e for e, row in self.entries.items() if row["function"] == name), "")
        note = ""
        if not entry and callee.calls <= self.covered:
            note = "in functions of the draft"
        elif not entry:
            products = f"has {callee.products} products" if callee.products else ""
            note = self.refused.get(name) or callee.problem or _named(name) or products
        calls = len(callee.invocations if callee.is_function else callee.calls)
        return Suggestion(name, calls, callee.instructions, *callee.tensors, entry, note)


def _named(name: str) -> str:
    """A note on the catalog's entries that name a function or an operator; empty if none does."""
    catalog = activation.catalog()
    labels = [catalog.label(e) for e in catalog if e.op == name or name in e.functions]
    return f"{' and '.join(labels)} names it" if labels else ""


def _draft_entry(function: Callee) -> dict[str, Any] | str:
    """Draft an entry from a function's first call in the step, or return why there is none."""
    if not function.only_tensors or function.results is None:
        return "it returns other values than tensors"
    operands: list[str] = []
    attributes: dict[str, str] = {}
    for path, value in function.reads.items():
        name = path.rpartition(".")[2]
        if isinstance(value, Tensor):
            operands.append(path)
        elif value is not None:
            attributes[path.replace(".", "_") if name in attributes else name] = path
    if not operands:
        return "it takes no tensor that an entry could list as an operand"
    document: dict[str, Any] = {"function": function.name, "operands": operands}
    if attributes:
        document["attributes"] = attributes
    if function.differentiable:
        document["backward"] = "derive"
    called = {name: value for name, value in function.arguments.items() if value is not None}
    is_method = "." in function.name.partition(":")[2]
    if not is_method and not any(isinstance(value, Other) for value in called.values()):
        document["example"] = {
            name: str(value) if isinstance(value, Tensor) else value
            for name, value in called.items()
        }
    return document


def _name_for(function: str) -> str:
    """The name of an entry: `rms_norm` for `RMSNorm.forward`."""
    words = function.rpartition(":")[2].split(".")[-2:]
    if len(words) > 1 and words[-1] in ("forward", "__call__"):
        words.pop()
    capitals = r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])"
    return re.sub(r"_+", "_", re.sub(capitals, "_", "_".join(words)).lower()).strip("_")
