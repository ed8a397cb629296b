"""Recording a module's step, and saying what of it no entry catches.

module, example inputs
    -> the step as HLO, with the call of an operator that each instruction comes from
    -> instructions by operator and by Python function
    -> entries for those that are worth one, tried until all of them work
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch

from composites.allowlist import resolve
from composites.errors import CompositesError, ExportError, MissingPackageError, SuggestionError
from composites.registry.model import Composite
from composites.user_code import place_of
from lowering import activation
from lowering.export.optimizers import OptimizerFactory
from lowering.export.tracing import (
    Traced,
    nothing_kept,
    trace_inference,
    trace_training,
)
from lowering.suggestion.attribution import Attribution, attribute
from lowering.suggestion.drafting import Drafting
from lowering.suggestion.loss import Step
from lowering.suggestion.recording import record
from lowering.suggestion.results import Draft, Known, Missed, Report
from lowering.suggestion.trial import tried

Progress = Callable[[str], None]


def suggest(
    module: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    backward: bool = True,
    optimizer: OptimizerFactory | None = None,
    ops: Sequence[str] | None = None,
    namespace: str = "draft",
    title: str = "",
    progress: Progress = lambda description: None,
) -> Report:
    """Say what a step is made of outside composites, and draft entries for it.

    Args:
        backward: whether the step has a backward: of the loss that the module returns, or of the
            sum of what it returns.
        optimizer: as for `composites.export`.
        ops: entries that are on, as in XLA_COMPOSITE_OP; by default the active ones, or all if none
            is active.
        namespace: that of the draft.
        title: what the draft calls the step.
        progress: is told what is being done.

    Raises:
        SuggestionError: the step cannot be recorded.
        ExportError: it reads values while it runs.
    """
    made = _Suggester(module, args, dict(kwargs or {}), backward, optimizer, namespace, progress)
    with activation.for_export(ops):
        names = activation.active()
    on = resolve(names, activation.catalog()) if names else ()
    return made.report(names, on, title)


@dataclass(frozen=True, slots=True)
class _Suggester:
    module: torch.nn.Module
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    backward: bool
    optimizer: OptimizerFactory | None
    namespace: str
    progress: Progress

    def report(self, names: tuple[str, ...], on: tuple[Composite, ...], title: str) -> Report:
        self.progress("recording the step")
        before = _fallbacks()
        with activation.for_export(names):
            found = self.measure()
        missed = _missed(before, found)
        self.progress("recording the step without composites")
        stock = self._stock()
        self.progress("looking for entries that are off")
        known = tuple(self._known(found, names))
        if known:
            # The draft is for what neither these entries nor those that are on catch.
            labels = [entry.entry for entry in known]
            with activation.for_export((*names, *labels)):
                on = resolve(activation.active(), activation.catalog())
                rest = self.measure()
        else:
            rest = found
        reasons = {each.entry: each.reason for each in reversed(missed)}
        drafting = Drafting(rest, self.namespace, reasons)
        draft = self._drafted(drafting, on, title)
        rows = drafting.seen_in(found, known)
        return Report(
            on=names,
            stock=stock,
            outside=found.outside,
            composites=sum(found.composites.values()),
            functions=rows.functions(),
            operators=rows.operators(),
            missed=missed,
            known=known,
            draft=draft,
        )

    def measure(self) -> Attribution:
        """The step with what is on."""
        frontend = activation.backend().frontend
        if frontend.labels is None:
            raise SuggestionError("this frontend does not say which call an instruction comes from")
        with nothing_kept(frontend, self.module):
            return attribute(record(self._traced, frontend.labels))

    def _traced(self) -> Traced:
        frontend = activation.backend().frontend
        try:
            if self.backward or self.optimizer is not None:
                step = Step(self.module)
                return trace_training(frontend, step, self.args, self.kwargs, self.optimizer)
            return trace_inference(frontend, self.module, self.args, self.kwargs)
        except (CompositesError, MissingPackageError):
            raise
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            raise SuggestionError(f"{place_of(error)}the step failed: {said}") from error

    def _stock(self) -> int | None:
        with suppress(ExportError), activation.for_export(()):
            return self.measure().outside.instructions
        return None

    def _known(self, found: Attribution, names: Sequence[str]) -> Iterator[Known]:
        """Entries that are off, and what each would change by itself."""
        catalog = activation.catalog()
        off = [e for e in resolve(("all",), catalog) if catalog.label(e) not in names]
        if not off:
            return
        before = _calls_of_entries()
        with suppress(CompositesError), activation.for_export(("all",)):
            self.measure()
        after = _calls_of_entries()
        called = [e for e in off if after.get(e.identity, 0) > before.get(e.identity, 0)]
        backwards = {catalog.backward_of(entry) for entry in called}
        for entry in called:
            if entry in backwards:  # its forward turns it on too
                continue
            label = catalog.label(entry)
            self.progress(f"recording the step with {label}")
            before = _calls_of_entries()
            with suppress(CompositesError), activation.for_export((*names, label)):
                with_it = self.measure()
                calls = _calls_of_entries().get(entry.identity, 0) - before.get(entry.identity, 0)
                fewer = found.outside.instructions - with_it.outside.instructions
                if calls:
                    yield Known(label, calls, fewer, *_fallen(found, with_it))

    def _drafted(self, drafting: Drafting, on: tuple[Composite, ...], title: str) -> Draft | None:
        self.progress("drafting entries")
        found = drafting.found
        while True:
            entries = drafting.entries()
            result = tried(entries, self.namespace, on, self.measure, found)
            if not result.refused:
                break
            for entry, reason in result.refused:  # others may take their places
                drafting.refuse(entry, reason)
        if not entries:
            return None
        after = result.measured.outside.instructions
        return Draft(
            text=drafting.text(title, after),
            entries=tuple(entry.name for entry in entries),
            before=found.outside.instructions,
            predicted=drafting.predicted,
            outside=after,
        )


def _calls_of_entries() -> dict[str, int]:
    """Calls that became composites since the process began, by identity."""
    counted = activation.statistics.entries
    return {identity: statistics.caught for identity, statistics in counted.items()}


def _fallbacks() -> dict[tuple[str, str, str], int]:
    """Calls that entries did not claim since the process began, by entry, operands and reason."""
    return {
        (fallback.entry, fallback.operands, fallback.reason): fallback.calls
        for statistics in activation.statistics.entries.values()
        for fallback in list(statistics.fallbacks.values())
        if fallback.is_missed
    }


def _missed(before: Mapping[tuple[str, str, str], int], found: Attribution) -> tuple[Missed, ...]:
    """The calls that entries have not claimed since then, the most frequent reason first.

    What only decompositions of other entries call is left out: it is inside composites.
    """
    called = {call.operator for call in found.recorded.calls.made}
    inside = {
        entry.qualified
        for entry in activation.catalog()
        if entry.op is not None and not (entry.derives or entry.adapt or entry.op in called)
    }
    new = {key: calls - before.get(key, 0) for key, calls in _fallbacks().items()}
    missed = [
        Missed(*key, calls=calls)
        for key, calls in new.items()
        if calls > 0 and key[0] not in inside
    ]
    return tuple(sorted(missed, key=lambda m: (-m.calls, m.entry, m.operands)))


def _fallen(before: Attribution, after: Attribution) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The operators, and the functions, that have fewer instructions outside than before."""

    def fewer(old: Mapping[str, Collection[int]], new: Mapping[str, Collection[int]]) -> Any:
        return tuple(
            name
            for name, calls in old.items()
            if after.of(new.get(name, ())).instructions < before.of(calls).instructions
        )

    return fewer(before.operators(), after.operators()), fewer(
        {name: function.calls for name, function in before.functions().items()},
        {name: function.calls for name, function in after.functions().items()},
    )
