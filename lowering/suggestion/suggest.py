"""Recording a module's step, and saying what of it no entry catches.

module, example inputs
    -> the step as HLO, with the call of an operator that each instruction comes from
    -> instructions by operator and by Python function
    -> entries for those that are worth one, tried until all of them work
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch

from composites.allowlist import resolve
from composites.errors import CompositesError, ExportError, MissingPackageError, SuggestionError
from composites.user_code import place_of
from lowering import activation
from lowering.export.optimizers import OptimizerFactory
from lowering.export.tracing import (
    Traced,
    nothing_kept,
    trace_inference,
    trace_training,
)
from lowering.suggestion.attribution import Attribution, Source, attribute
from lowering.suggestion.drafting import Drafting, trial
from lowering.suggestion.loss import Step
from lowering.suggestion.recording import record
from lowering.suggestion.results import Draft, Known, Missed, Report

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
    suggester = _Suggester(module, args, dict(kwargs or {}), backward, optimizer, progress)
    with activation.for_export(ops):
        names = activation.active()
    return suggester.report(names, namespace, title)


@dataclass(frozen=True, slots=True)
class _Suggester:
    module: torch.nn.Module
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    backward: bool
    optimizer: OptimizerFactory | None
    progress: Progress

    def report(self, names: tuple[str, ...], namespace: str, title: str) -> Report:
        """The step with what is on, and a draft."""
        self.progress("recording the step")
        before = _fallbacks()
        step = self.measured(names)
        missed = _missed(_fallbacks() - before, step)
        self.progress("recording the step without composites")
        stock = None
        with suppress(ExportError):
            stock = self.measured(()).outside.instructions
        self.progress("looking for entries that are off")
        known = tuple(self._known(step, names))
        # The draft is for what neither these entries nor those that are on catch.
        with_known = (*names, *(entry.entry for entry in known))
        rest = self.measured(with_known) if known else step
        reasons = {each.entry: each.reason for each in reversed(missed)}
        drafting = Drafting(rest, namespace, reasons)
        draft = self._drafted(drafting, with_known, title)
        off: dict[str, str] = {}
        for entry in known:
            for name in (*entry.operators, *entry.functions):
                off[name] = f"{off[name]}, {entry.entry}" if name in off else entry.entry
        return Report(
            on=names,
            stock=stock,
            outside=step.outside,
            composites=step.composites,
            # In these rows, the entries that are known are off.
            functions=drafting.rows(step.functions, step, off),
            operators=drafting.rows(step.operators, step, off),
            missed=missed,
            known=known,
            draft=draft,
        )

    def measured(self, names: Sequence[str]) -> Attribution:
        """The step with only these entries on."""
        with activation.for_export(names):
            return self.measure()

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

    def _known(self, step: Attribution, names: Sequence[str]) -> Iterator[Known]:
        """Entries that are off, and what each would change by itself."""
        catalog = activation.catalog()
        off = [e for e in resolve(("all",), catalog) if catalog.label(e) not in names]
        if not off:
            return
        before = _caught()
        with suppress(CompositesError):
            self.measured(("all",))
        called = _caught() - before
        backwards = {catalog.backward_of(entry) for entry in off if called[entry.identity]}
        for entry in off:
            if not called[entry.identity] or entry in backwards:  # its forward turns it on too
                continue
            label = catalog.label(entry)
            self.progress(f"recording the step with {label}")
            before = _caught()
            with suppress(CompositesError):
                after = self.measured((*names, label))
                fewer = step.outside.instructions - after.outside.instructions
                if calls := (_caught() - before)[entry.identity]:
                    operators = _fallen(step.operators, after.operators)
                    functions = _fallen(step.functions, after.functions)
                    yield Known(label, calls, fewer, operators, functions)

    def _drafted(self, drafting: Drafting, names: Sequence[str], title: str) -> Draft | None:
        """A draft whose entries all work, in addition to those that are named."""
        self.progress("drafting entries")
        with activation.for_export(names):
            on = resolve(activation.active(), activation.catalog()) if names else ()
        drafting.choose()
        while drafting.entries:
            entries = tuple(drafting.entries.values())
            outcome = trial(entries, drafting.namespace, on, self.measure)
            if isinstance(outcome, Attribution):
                after = outcome.outside.instructions
                return Draft(
                    text=drafting.text(title, after),
                    entries=tuple(entry.name for entry in entries),
                    before=drafting.step.outside.instructions,
                    outside=after,
                )
            # Others may take the places of those that do not work.
            drafting.refused |= {name: why.partition("\n")[0] for name, why in outcome.items()}
            drafting.choose()
        return None


def _caught() -> Counter[str]:
    """Calls that became composites since the process began, by identity."""
    counted = activation.statistics.entries
    return Counter({identity: statistics.caught for identity, statistics in counted.items()})


def _fallbacks() -> Counter[tuple[str, str, str]]:
    """Calls that entries did not claim since the process began, by entry, operands and reason."""
    return Counter(
        {
            (fallback.entry, fallback.operands, fallback.reason): fallback.calls
            for statistics in activation.statistics.entries.values()
            for fallback in list(statistics.fallbacks.values())
            if fallback.is_missed
        }
    )


def _missed(fallbacks: Counter[tuple[str, str, str]], step: Attribution) -> tuple[Missed, ...]:
    """The calls of a step that entries did not claim, the most frequent reason first.

    What only decompositions of other entries call is left out: it is inside composites.
    """
    called = {call.callee.name for call in step.recorded.calls}
    inside = {
        entry.qualified
        for entry in activation.catalog()
        if entry.op is not None and not (entry.derives or entry.adapt or entry.op in called)
    }
    missed = [Missed(*key, calls=n) for key, n in fallbacks.items() if key[0] not in inside]
    return tuple(sorted(missed, key=lambda m: (-m.calls, m.entry, m.operands)))


def _fallen(before: Mapping[str, Source], after: Mapping[str, Source]) -> tuple[str, ...]:
    """The names of those that have fewer instructions outside than before."""
    left = {name: source.amount.instructions for name, source in after.items()}
    fewer = (name for name in before if left.get(name, 0) < before[name].amount.instructions)
    return tuple(sorted(fewer))
